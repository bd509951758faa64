"""The simulation of a matrix unit: its Verilog inside the bench top."""

from pathlib import Path

from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.registers import ADDRESS_BITS
from ..engine import verilator

BENCH = Path(__file__).with_name("bench.sv")
LARGE = 16  # dot units from which on the build of each by itself takes too long


def build_matmul(
    config: MatmulConfig, verilog: Path, directory: Path, *, waves: bool = False
) -> verilator.Build:
    """A simulation of the unit in the bench top."""
    return verilator.build(
        verilog,
        verilator.MATMUL_BENCH_TOP,
        directory,
        extra_sources=[BENCH],
        parameters={f"{side.upper()}_BYTES": config.stream_bytes(side) for side in "abcd"}
        | {"ADDRESS_BITS": ADDRESS_BITS},
        separate=dot_modules(verilog) if config.rows * config.columns >= LARGE else [],
        waves=waves,
    )


def dot_modules(verilog: Path) -> list[str]:
    """The module of the dot units, of which the array has one for each result of a tile; none in a
    netlist, which is one module."""
    from ...hw.verilog import modules_of  # Amaranth: only when a unit is built

    return [name for name in modules_of(verilog.read_text()) if "_dot_unit" in name][:1]
