"""The simulation of one dot unit, alone or before a quantiser: its Verilog inside the bench top."""

from pathlib import Path

from ...model import DotConfig, DotQuantizeConfig
from ..engine import verilator

BENCH = Path(__file__).with_name("bench.sv")


def build_unit(
    config: DotConfig | DotQuantizeConfig,
    verilog: Path,
    directory: Path,
    *,
    executable: Path | None = None,
    waves: bool = False,
    coverage: bool = False,
    probes: bool = False,
) -> verilator.Build:
    """A simulation of the unit in the bench top; with `probes` its stages can be watched."""
    probe_file = None
    if probes:
        probe_file = Path(__file__).with_name("probes.vlt")
    defines, code_bits = {}, 0
    if isinstance(config, DotQuantizeConfig):
        defines, code_bits = {"UNIT": "mxdot_dot_quantize"}, config.quantizer.bits
        config = config.dot
    return verilator.build(
        verilog,
        verilator.BENCH_TOP,
        directory,
        extra_sources=[BENCH],
        parameters={
            "LANES": config.lanes,
            "A_BITS": config.bits_a,
            "B_BITS": config.bits_b,
            "MODE_BITS": max(config.mode_bits, 1),
            "RESULT_BITS": config.out.bits,
            "CODE_BITS": code_bits,
            "SCALE_BITS": config.scale_blocks * config.scale_bits,
            "SLOT_BITS": config.slot_bits,
            **{f"{name.upper()}_BITS": bits for name, bits in config.side_inputs.items()},
        },
        defines=defines,
        public_vlt=probe_file,
        waves=waves,
        coverage=coverage,
        executable=executable,
        optimize=not probes,
    )
