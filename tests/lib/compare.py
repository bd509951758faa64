"""Comparison of the fast model with the rational oracle, and what a failure prints."""

import os
import shlex
import sys
import zlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cases import Cases
from mxdot.model import FORMATS, Accumulator, MXArray, dot
from mxdot.model.plugins import assignment
from rational import dot as oracle

FLAGS = oracle.Result._fields[1:]


FULL = os.environ.get("MXDOT_FULL", "0") != "0"
"""True with MXDOT_FULL: slow cases run that find little more."""


def some(cases: Iterable, step: int) -> list:
    """Every `step`-th case, with FULL=1 all.

    For a product of lists, `step` shares no factor with the length of the last list, so that no
    value of a list is left out.
    """
    return list(cases)[:: 1 if FULL else step]


def seed() -> int:
    """The seed of this run's random cases: MXDOT_SEED, or 1."""
    return int(os.environ.get("MXDOT_SEED", "1"))


def generator(*key: object) -> np.random.Generator:
    """The run's random generator for the test that `key` names."""
    return np.random.default_rng([seed(), zlib.crc32(repr(key).encode())])


def fast_results(cases: Cases, accumulator: Accumulator | str) -> list[oracle.Result]:
    """Bits and flags by `mxdot.model.dot`."""
    options = {"stages": False, "scale_format": cases.scale_format}
    trace = dot(cases.a, cases.b, accumulator, cases.c, trace=True, **options)
    columns = [trace.result.view(np.uint32), *(getattr(trace.flags, name) for name in FLAGS)]
    return [oracle.Result(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]


def model_dot(fmt_a, fmt_b, blocks, accumulator, c=0) -> oracle.Result:
    """`oracle.dot` by `mxdot.model.dot`; zeros fill up the shorter ones of several blocks."""
    size = max(len(codes) for codes, *_ in blocks)

    def operand(fmt: str, side: int) -> MXArray:
        codes = [code for block in blocks for code in block[side] + [0] * (size - len(block[side]))]
        scales = np.array([[block[2 + side] for block in blocks]], np.uint8)
        return MXArray(np.array([codes], FORMATS[fmt].dtype), scales, fmt, size)

    a, b = operand(fmt_a, 0), operand(fmt_b, 1)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        cases = Cases(a, b, np.array([c], np.uint32).view(np.float32))
        return fast_results(cases, accumulator)[0]


def oracle_results(cases: Cases, accumulator: Accumulator | str) -> list[oracle.Result]:
    """Bits and flags by the oracle, one dot product at a time."""
    fmt_a, fmt_b, text = cases.a.format.name, cases.b.format.name, str(accumulator)
    bits = cases.c.view(np.uint32).tolist()
    return [
        oracle.dot(fmt_a, fmt_b, blocks, text, c, cases.scale_format)
        for blocks, c in zip(all_blocks(cases), bits, strict=True)
    ]


def all_blocks(cases: Cases) -> list[list[tuple[list[int], list[int], int, int]]]:
    """Each dot product's blocks (codes of a, codes of b, scale of a, scale of b)."""
    codes_a, scales_a = cases.a.blocks_last()
    codes_b, scales_b = cases.b.blocks_last()
    columns = (x.tolist() for x in (codes_a, codes_b, scales_a, scales_b))
    return [list(zip(*row, strict=True)) for row in zip(*columns, strict=True)]


def difference(cases: Cases, accumulator: Accumulator | str, cut: bool = False) -> str | None:
    """A report if the fast model and the oracle differ in a bit or flag, otherwise None.

    cut: the report shows as few blocks and terms of one dot product as still differ.
    """
    model, wanted = fast_results(cases, accumulator), oracle_results(cases, accumulator)
    wrong = [i for i in range(len(cases)) if model[i] != wanted[i]]
    if not wrong:
        return None
    first = min(wrong, key=lambda i: sum(map(bool, cases.a.codes[i] & cases.b.codes[i])))
    one, shown = cases[first : first + 1], "one with few terms"
    if cut:
        one, shown = _cut(one, accumulator), "the smallest part of one"
    return "\n".join(
        [
            f"{len(wrong)} of {len(cases)} dot products differ; {shown}, row {first}:",
            describe(one, accumulator),
            f"model       {_line(fast_results(one, accumulator)[0])}",
            f"oracle      {_line(oracle_results(one, accumulator)[0])}",
            f"repeat      {repeat_command()}",
        ]
    )


def _cut(case: Cases, accumulator: Accumulator | str) -> Cases:
    """A dot product that differs, without blocks and places that it differs without."""
    kept = [np.arange(case.a.scales.shape[1]), np.arange(case.a.block_size)]
    for axis in (0, 1):
        for index in kept[axis].copy():
            trial = kept.copy()
            trial[axis] = kept[axis][kept[axis] != index]
            if trial[axis].size and _differs(_taken(case, *trial), accumulator):
                kept = trial
    return _taken(case, *kept)


def _taken(case: Cases, blocks: NDArray, places: NDArray) -> Cases:
    """One dot product's blocks and places of these numbers."""

    def taken(x: MXArray) -> MXArray:
        codes = x.codes.reshape(-1, x.block_size)[np.ix_(blocks, places)]
        return MXArray(codes.reshape(1, -1), x.scales[:, blocks], x.format, len(places))

    return Cases(taken(case.a), taken(case.b), case.c, case.scale_format)


def _differs(case: Cases, accumulator: Accumulator | str) -> bool:
    return fast_results(case, accumulator) != oracle_results(case, accumulator)


def describe(cases: Cases, accumulator: Accumulator | str) -> str:
    """The first dot product of `cases`, operands in hex."""
    lines = [
        f"seed        {seed()}",
        f"accumulator {accumulator}",
        f"formats     {cases.a.format} x {cases.b.format}, block size {cases.a.block_size}",
        f"c           {cases.c.view(np.uint32)[0]:#010x}",
    ]
    for j, (a, b, scale_a, scale_b) in enumerate(all_blocks(cases[:1])[0]):
        lines.append(f"block {j}  a  {' '.join(f'{code:02x}' for code in a)}  scale {scale_a:02x}")
        lines.append(f"         b  {' '.join(f'{code:02x}' for code in b)}  scale {scale_b:02x}")
    return "\n".join(lines)


def _line(result: oracle.Result) -> str:
    flags = [name for name in FLAGS if getattr(result, name)]
    return f"{result.bits:#010x}  flags: {' '.join(flags) or 'none'}"


def repeat_command() -> str:
    """The command that runs the present test or program alone, with the present seed."""
    test = os.environ.get("PYTEST_CURRENT_TEST")
    if not test:
        return f"{assignment()}MXDOT_SEED={seed()} python {shlex.join(sys.argv)}"
    return f"MXDOT_SEED={seed()} .venv/bin/python -m pytest '{test.removesuffix(' (call)')}'"


def check(cases: Cases, accumulator: Accumulator | str) -> None:
    """Fail, with a report, unless the fast model and the oracle agree."""
    report = difference(cases, accumulator)
    assert report is None, f"\n{report}"
