"""The simulation of a matrix unit: its Verilog inside the bench top."""

from pathlib import Path

from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.registers import ADDRESS_BITS
from ..engine import verilator

BENCH = Path(__file__).with_name("bench.sv")
PUBLIC = BENCH.with_name("counters.vlt")
LARGE = 16  # dot units from which on the build of each by itself takes too long


def build_matmul(
    config: MatmulConfig,
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
        verilator.MATMUL_BENCH_TOP,
        directory,
        extra_sources=[BENCH],
        public_vlt=PUBLIC,
        parameters={f"{side.upper()}_BYTES": config.stream_bytes(side) for side in "abcd"}
        | {"ADDRESS_BITS": ADDRESS_BITS},
        separate=shared_modules(config, verilog.read_text()),
        waves=waves,
        coverage=coverage,
        executable=executable,
    )


def shared_modules(config: MatmulConfig, verilog: str) -> list[str]:
    """The module of the dot units, of which the array has one for each result of a tile.

    None where there are few of them.
    """
    from ...hw.verilog import modules_of  # Amaranth: only when a unit is built

    if config.rows * config.columns < LARGE:
        return []
    return [name for name in modules_of(verilog) if "_dot_unit" in name][:1]
