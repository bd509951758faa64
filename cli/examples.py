"""An example for the help of every command."""

import argparse

from .parser import EXAMPLE

EXAMPLES = {
    "mxdot": "mxdot compute --machine h100-fp8 a.npy b.npy",
    "mxdot machines": "mxdot machines h100",
    "mxdot sim": "mxdot sim dot --format e4m3 --accumulator aligned:13 --lanes 8",
    "mxdot sim regression": "mxdot sim regression --only 'aligned*' --seed 1",
    "mxdot sim dot": "mxdot sim dot --accumulator hopper --lanes 32 --tensors layer.npz --name x w",
    "mxdot sim quantize": "mxdot sim quantize --format e4m3 --block 32 --source bfloat16",
    "mxdot sim dot-quantize": "mxdot sim dot-quantize --format e4m3 --lanes 8 --to e2m1",
    "mxdot sim matmul": "mxdot sim matmul --format e4m3 --lanes 8 --rows 2 --columns 2",
    "mxdot sim soak": "mxdot sim soak --hours 8 --only 'aligned*'",
    "mxdot sim replay": "mxdot sim replay build/soak/failures/FILE.json --waves",
    "mxdot verilog": "mxdot verilog --format e4m3 --accumulator aligned:13 --lanes 32 -o dot.v",
    "mxdot verilog dot": "mxdot verilog dot --accumulator hopper --lanes 32 --stages 5 -o dot.v",
    "mxdot verilog quantize": "mxdot verilog quantize --format e4m3 --scale-rule ceil -o q.v",
    "mxdot verilog dot-quantize": "mxdot verilog dot-quantize --format e4m3 --to e2m1 -o dq.v",
    "mxdot verilog matmul": "mxdot verilog matmul --format e4m3 --rows 4 --columns 4 -o matmul.v",
    "mxdot export": "mxdot export --c --format e4m3 --accumulator rvbna:8 -o rvbna8.h",
    "mxdot vectors": "mxdot vectors --accumulator aligned:13 --lanes 8 --count 100 -o vectors.npz",
    "mxdot run-layer": "mxdot run-layer --shape 64,64,256 --lanes 8 --rows 2 --columns 2",
    "mxdot synth": "mxdot synth fir.v --top fir --process asap7 --json fir.json",
    "mxdot compare": "mxdot compare --format e4m3 --accumulator exact,aligned:6..12 --lanes 32",
    "mxdot compare units": "mxdot compare units --format e4m3 --accumulator exact,hopper",
    "mxdot compare find": "mxdot compare find --sqnr 40 --format e4m3 --data normal,real",
    "mxdot compare schemes": "mxdot compare schemes mxfp8_e4m3,nvfp4 --data normal",
    "mxdot compare errors": "mxdot compare errors mxfp8_e4m3,nvfp4 --data normal",
    "mxdot compare columns": "mxdot compare columns --json columns.json",
    "mxdot array": "mxdot array --format e4m3 --accumulator aligned:8 --sizes 2x2,4x4",
    "mxdot probe": "mxdot probe --unit aligned:13 --format e4m3 --lanes 8",
    "mxdot verify": "mxdot verify formal --only rounder",
    "mxdot verify soak": "mxdot verify soak --hours 8 --only 'aligned*'",
    "mxdot verify replay": "mxdot verify replay build/soak/failures/FILE.json --waves",
    "mxdot verify formal": "mxdot verify formal --only rounder",
    "mxdot verify mutate": "mxdot verify mutate --only dot --count 4",
    "mxdot verify coverage": "mxdot verify coverage --only dot",
    "mxdot evaluate": "mxdot evaluate encoder --recipe mxfp8,nvfp4",
}
"""Commands to paste, by the command whose help has them."""


def add_examples(parser: argparse.ArgumentParser) -> None:
    """Put the examples below the help of a parser and of its subcommands."""
    if parser.epilog is None and parser.prog in EXAMPLES:
        parser.epilog = EXAMPLE + EXAMPLES[parser.prog].replace("%", "%%")
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                add_examples(each)
