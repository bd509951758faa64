"""Measure by what ratio sections take longer in other processes than the model states.

    python tools/section_delays.py           rewrite section_delays.toml; some ten minutes
    python tools/section_delays.py --check   exit with 1 when it is out of date

Every section of `UNITS` is mapped alone, for speed, as `make area-report ARGS=--sections` does. A
kind's ratio is that of all sections of it together, to what the model states.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from mxdot.hw.dot.sections import build
from mxdot.hw.hierarchy import used
from mxdot.model import DotConfig
from mxdot.model.pipeline.delays import DEFAULT_DELAYS, TABLE
from mxdot.model.pipeline.placement import Section
from mxdot.model.pipeline.widths import Widths
from mxdot.synth import SYNTHESES, Flow, measure
from mxdot.synth.area_report import LANES, TOP, Alone
from mxdot.synth.processes import PROCESSES
from mxdot.util.files import write_file

UNITS = (
    # A unit takes the ratios of the first that has its kinds of sections: those of few come first.
    *(
        DotConfig("int8", LANES, "int32", out=out, scales=scales, zero_points=zero_points)
        for scales, zero_points in (("none", "none"), ("u8", "ab"))
        for out in ("int8_full:shift", "int8_full:multiply", "float16:scale")
    ),
    *(
        DotConfig(formats, LANES, accumulator, out="bfloat16")
        for formats, accumulator in (
            ("int8", "int32"),
            ("int8", "fixed:48:-20"),
            ("e4m3", "exact"),
            ("e4m3", "aligned:13"),
            ("e4m3", "aligned:24"),
            ("e4m3", "fused:13"),
            ("e4m3", "hopper-promoted"),
            ("e4m3", "fixed:48:-20"),
            ("e4m3", "float32"),
            ("e4m3", f"rvbna:{LANES}"),
        )
    ),
)


@cache
def sections(config: DotConfig) -> list[tuple[Section, str]]:
    """The sections of a unit, and of each the Verilog."""
    built = [used(section) for section in build(Widths(config))]
    texts = [used(Alone(section)).verilog() for section in built]
    return list(zip(config.pipeline.sections, texts, strict=True))


def ratios(config: DotConfig, process: str) -> dict[str, float]:
    """The ratio of each kind of a unit's sections."""
    flow = Flow.of_process(process, effort="speed", sections=False)
    stated, measured = defaultdict(int), defaultdict(float)
    for part, text in sections(config):
        cost = measure(text, TOP, flow, cache_dir=SYNTHESES)
        assert cost.delay_ps is not None  # cells are timed
        stated[part.kind] += part.delay
        measured[part.kind] += cost.delay_ps
    return {kind: measured[kind] / stated[kind] for kind in stated}


def table() -> Iterator[str]:
    """The lines of the file."""
    yield "# By process and unit, what a kind of section takes there for 1 that the model states."
    yield "# Written by tools/section_delays.py."
    for process in PROCESSES:
        if process == DEFAULT_DELAYS:
            continue
        for config in UNITS:
            yield f'\n[{process}."{config}"]'
            yield from (f"{kind} = {ratio:.3g}" for kind, ratio in ratios(config, process).items())


def main() -> int:
    """The command line."""
    text = "\n".join(table()) + "\n"
    if "--check" in sys.argv[1:]:
        return int(text != TABLE.read_text())
    write_file(TABLE, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
