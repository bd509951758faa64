"""A comparison of stand-ins with everything that a real one may hold."""

from pathlib import Path

from compare_fakes import FAKES
from mxdot.compare.studies import Comparison, Sampling, Study, Sweep, compare, load_extra, processes
from mxdot.compare.studies.flows import Synthesis


def swept(formats=None, accumulator=None, lanes=None, stages=None, result=None, **options):
    """A sweep; an option that is None is left out."""
    named = {"format": formats, "accumulator": accumulator, "lanes": lanes, "stages": stages,
             "result": result}  # fmt: skip
    return Sweep({key: text for key, text in (named | options).items() if text is not None})


class Quiet:
    """An observer that remembers what was begun."""

    def __init__(self):
        self.begun = []

    def begin(self, tasks, kept):
        self.begun = [task.label for task in tasks]

    def start(self, task):
        pass

    def end(self, task, outcome):
        pass


def sample(folder: Path) -> Comparison:
    """Several formats, families, lanes and data sets; failures; an extra unit; an odd title."""
    (folder / "mac.v").write_text("module mac; endmodule")
    (folder / "extra.toml").write_text('[[extra]]\nname="mine"\nverilog="mac.v"\ntop="mac"')
    sweep = swept("e4m3,int8", "exact,aligned:6..14/4,fused:13,fixed:32:-12,float32,hopper", "8")
    study = Study(
        "A </script><b> & more",
        (sweep, swept("e4m3", "exact", "4"), swept("e4m3,int8", "int32", "8")),
        tuple(load_extra(folder / "extra.toml")),
        Synthesis("gates"),
        ("normal", "cancellation"),
        Sampling((32, 4096), 4, encoder=2),
    )
    return compare(study, folder / "out", processes(2), Quiet(), tools=FAKES)


STUDY = """
title = "Two formats"
[[sweep]]
format = ["e4m3", "int8"]
accumulator = "exact,aligned:6..8/2"
lanes = [4, 8]
status = false
[[sweep]]
format = "e5m2"
accumulator = "fixed:40:-20"
lanes = 8
stages = "2..3"
[[extra]]
name = "mine"
verilog = ["a.v", "b.v"]
top = "mac"
parameters = { WIDTH = 8 }
[cost]
flow = "gates"
target_levels = [30, 40]
effort = "area"
[accuracy]
data = ["normal", "outliers"]
lengths = [64, 32]
count = 10
seed = 3
encoder = 2
"""

MINE = '[[extra]]\nname = "mine"\nverilog = "a.v"\ntop = "mac"\n'
