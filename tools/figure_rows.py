"""The registry of published figures: one row each, for `figures.py`.

To register a figure: add a row; for a table put `<!-- figure: NAME -->` and `<!-- end -->` into its
page and its function into `figure_tables.py`; then `make figures ARGS='--only NAME'`.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import figure_tables as tables
from figure_inputs import BUILD, Inputs, code, compared, files, flow, folders, reported, verilog

Table = Callable[[Path], str]
"""Function that makes Markdown of the folder that a command wrote."""


@dataclass(frozen=True)
class Figure:
    """A picture, a table or a few that one command makes.

    command: `{out}` stands for the folder to write to. pictures: files of that folder by the names
    in docs that they get. tables: by the name between the marks in `page`. needs: what a machine
    must have beyond two cores and the extra `compare`; a figure with needs is made when `--only` is
    its name, and only then. seconds: time on two cores.
    """

    name: str
    page: str
    command: str
    inputs: Callable[[], Inputs]
    seconds: float
    pictures: dict[str, str] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    needs: str = ""

    @property
    def out(self) -> Path:
        """The folder that the command writes to."""
        return BUILD / self.name


SCHEMES_CODE = ("model", "compare/schemes", "compare/accuracy", "util/data")
REAL = "util/data/real/*"


def study(
    name: str,
    page: str,
    options: str,
    seconds: float,
    pictures: dict[str, str] | None = None,
    tables: dict[str, Table] | None = None,
) -> Figure:
    """A figure of `mxdot compare` with these options, whose inputs follow from its tasks."""
    command = f"mxdot compare {options} -o {{out}}"
    inputs = partial(compared, command.format(out="build"))
    return Figure(name, page, command, inputs, seconds, pictures or {}, tables or {})


def area(name: str, rows: str, options: str, effort: str, seconds: float, table: Table) -> Figure:
    """A table of `make area-report`."""

    def inputs() -> Inputs:
        from mxdot.synth import area_report

        return reported(getattr(area_report, rows), effort)

    command = f"python -m mxdot.synth.area_report {options}".strip()
    return Figure(name, "area.md", command, inputs, seconds, tables={name: table})


def errors() -> Inputs:
    """Schemes on stored data."""
    return {"code": code("mxdot.compare.schemes.measure", SCHEMES_CODE), "data": files(REAL)}


def scheme_units() -> Iterator[str]:
    """Verilog of the units of the schemes that are compared in an encoder."""
    from mxdot.compare.schemes.matching_unit import NoUnitError, unit_of
    from mxdot.compare.studies.units import TOP
    from mxdot.hw import generate
    from mxdot.model.schemes.pairing import pairing

    for name in f"{BOTH},{APART}".split(","):
        with suppress(NoUnitError):
            yield generate(unit_of(pairing(name)), TOP)


def in_network() -> Inputs:
    """Schemes in an encoder, and their units."""
    return {
        "code": code("mxdot.compare.schemes.comparison", SCHEMES_CODE),
        "data": files("util/data/sentences.py"),
        "Verilog": verilog(f"schemes {BOTH},{APART}", scheme_units),
        "flow": flow("gates"),
    }


def array() -> Inputs:
    """Matrix units; one of 2 x 2 stands for all."""
    from mxdot.hw import generate
    from mxdot.model import DotConfig
    from mxdot.model.units import MatmulConfig

    config = MatmulConfig(DotConfig("e4m3", accumulator="aligned:13"), rows=2, columns=2)
    return {
        "Verilog": verilog("array 2x2", lambda: [generate(config, "mxdot_matmul")]),
        "flow": flow("gates"),
        "code": folders("synth/arrays.py", "synth/roofline.py"),
    }


def machine_losses() -> Inputs:
    """Losses of machines and areas of their units."""
    from machine_figures import verilogs

    return {
        "code": code("mxdot.compare.accuracy.evaluation"),
        "Verilog": verilog("machines", verilogs),
        "flow": flow("gates"),
        "command": folders("tools/machine_figures.py"),
    }


def programs(*names: str) -> Callable[[], Inputs]:
    """Inputs of a run on a GPU: its programs and recipes, not kernels, which change no bit."""
    return lambda: {"code": folders(*names), "data": files("examples/lm_text.py")}


def in_encoder() -> Inputs:
    """Accumulators in the encoder; recipes stand for kernels, which change no bit."""
    return {"code": folders(*SWEEP), "data": files("util/data/sentences.py")}


def perplexities(command: str) -> Inputs:
    """Rows of networks, and units at a clock."""
    rows = files("docs/perplexity-*.json")
    return {**compared(command), "rows": rows, "command": folders("tools/perplexity_figure.py")}


SWEEP = ("nn/networks/end_to_end.py", "nn/recipe.py", "nn/recipes.py")
TRAINING = ("examples/train_lm.py", "examples/lm_network.py", "nn/recipe.py", "nn/recipes.py")
BOTH = (
    "mxfp8_e4m3,mxfp8_e5m2,mxfp6_e2m3,mxfp6_e3m2,mxfp4,mxint8,fp8_e4m3_tensor,fp8_e4m3_row,"
    "int8_tensor,int8_channel,int8_affine_channel,int4_channel,int4_g128,int4_affine_g128,msfp16,mx9,"
    "mx6,mx4,vsquant4_u4,vsquant8_u6,nvfp4,mixed8,mixed6,mixed4"
)
APART = (
    "int8_channel/int8_affine,int8_channel/mxint8,int4_g128/int8_affine_channel,int4_g128/mxint8,"
    "int8_tensor/bfloat16,int8_channel/bfloat16,int4_channel/bfloat16,int4_g128/bfloat16"
)

FIGURES: tuple[Figure, ...] = (
    study(
        "choose", "choose.md",
        "--format e4m3 --accumulator aligned:4,aligned:6,aligned:8,aligned:10,aligned:13,hopper,"
        "float32,exact --lanes 32 --data real --lengths 32,512,4096", 240,
        pictures={"choose.svg": "plots/area-sqnr-gates-real.svg"},
    ),
    study(
        "clock", "area.md", "--study examples/clock.toml", 480,
        pictures={"clock-area.svg": "plots/clock-area-asap7.svg"},
    ),
    study(
        "fraction_bits", "accumulators.md", "--study examples/fraction_bits.toml", 120,
        pictures={"accumulators-bits.svg": "plots/error-f-normal.svg"},
        tables={"fraction_bits": tables.fraction_bits},
    ),
    study(
        "lengths", "accumulators.md", "--study examples/lengths.toml", 300,
        pictures={"accumulators-lengths.svg": "plots/error-length-log-normal.svg"},
        tables={"lengths": tables.lengths},
    ),
    Figure(
        "perplexity", "accumulators.md", "python tools/perplexity_figure.py {out}",
        partial(perplexities, "mxdot compare --study examples/fraction_area.toml -o build"), 600,
        pictures={"perplexity.svg": "perplexity.svg"}, tables={"perplexity": tables.perplexity},
    ),
    Figure(
        "perplexity_lm", "accumulators.md", "python examples/lm_sweep.py --out {out}",
        programs("examples/lm_sweep.py", "examples/lm_network.py", *SWEEP), 300,
        pictures={"perplexity-lm.json": "rows.json"}, needs="a GPU",
    ),
    Figure(
        "perplexity_encoder", "accumulators.md",
        "mxdot evaluate encoder --accumulator aligned:3..14,hopper,exact -o {out} "
        "--json {out}/rows.json",
        in_encoder, 300, pictures={"perplexity-encoder.json": "rows.json"},
        needs="the extras nn and real",
    ),
    study(
        "units", "accumulators.md",
        "--study examples/accumulators.toml --extra examples/macs.toml", 1500,
        tables={"units": tables.units},
    ),
    study(
        "narrow", "accumulators.md", "--study examples/narrow.toml", 900,
        tables={"narrow": tables.narrow},
    ),
    Figure(
        "schemes", "schemes.md", "mxdot compare errors -o {out}", errors, 120,
        pictures={
            "schemes.svg": "schemes.svg",
            "schemes-clipping-int4.svg": "clipping-int4_tensor.svg",
        },
        tables={"schemes": tables.products, "clipping": tables.clipping},
    ),
    Figure(
        "schemes_network", "schemes.md",
        f"mxdot compare schemes {BOTH},{APART} --encoder 8 -o {{out}}", in_network, 1500,
        pictures={"schemes-area.svg": "schemes.svg"}, tables={"network": tables.network},
        needs="the extra real",
    ),
    area("area_units", "entries", "", "balanced", 720, tables.reported),
    area("area_both", "entries", "--effort both", "both", 1500, tables.of_units),
    area("area_clock", "clocked", "--clock --effort speed", "speed", 900, tables.clocked),
    Figure(
        "array", "matmul.md", "mxdot array -o {out}", array, 600,
        pictures={"matmul-area.svg": "area.svg", "matmul-roofline.svg": "roofline.svg"},
    ),
    Figure(
        "machines", "machines.md", "python tools/machine_figures.py {out}/machines.csv",
        machine_losses, 480, pictures={"machines.csv": "machines.csv"},
    ),
    Figure(
        "training", "training.md",
        "python examples/train_lm.py --out {out} --seeds 0 1 2 3 4 5",
        programs(*TRAINING), 900, pictures={"training.svg": "losses.svg"},
        tables={"training": tables.losses}, needs="a GPU",
    ),
    Figure(
        "training_sizes", "training.md",
        "python examples/train_lm.py --out {out} --sizes small medium large "
        "--variants bfloat16 mxfp8 fp8-tensor fp8-blocks",
        programs(*TRAINING), 400, pictures={"training-sizes.svg": "losses.svg"},
        tables={"training-sizes": tables.losses_by_size}, needs="a GPU",
    ),
)  # fmt: skip
