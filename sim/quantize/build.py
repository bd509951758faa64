"""The simulation of one quantiser: its Verilog inside the bench top."""

from pathlib import Path

from ...model import QuantizeConfig
from ..engine import verilator

BENCH = Path(__file__).with_name("bench.sv")


def build_quantizer(
    config: QuantizeConfig,
    verilog: Path,
    directory: Path,
    *,
    executable: Path | None = None,
    waves: bool = False,
    coverage: bool = False,
) -> verilator.Build:
    """A simulation of the unit in the bench top."""
    return verilator.build(
        verilog,
        verilator.BENCH_TOP,
        directory,
        extra_sources=[BENCH],
        parameters={
            "LANES": config.lanes,
            "VALUE_BITS": config.source.bits,
            "CODE_BITS": config.bits,
            "WORD_BITS": config.word_bits,
            "MODE_BITS": config.mode_bits,
            "RULE_BITS": config.rule_bits,
            "OUTER_BITS": config.outer_bits,
            "MICRO_BITS": config.micro_bits,
            "SELECTOR_BITS": config.selector_bits,
            "SCALE_BITS": config.scale_bits,
        },
        waves=waves,
        coverage=coverage,
        executable=executable,
    )
