"""Exported rules against the model: operands, expected results, and compiled headers."""

import ctypes
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cases import Cases, random_cases
from mxdot.model import dot
from mxdot.model.accumulators import any_operands
from mxdot.model.export import export
from mxdot.model.trace import FLAG_NAMES

RULES = {
    "rvbna:8": [("e4m3", "e4m3", 20), ("bf16", "e5m2", 12)],
    "rvbna:32:0": [("fp16", "fp16", 32)],
    "aligned:13": [("e4m3", "e5m2", 32), ("int8", "e2m3", 8)],
    "aligned:64": [("bf16", "tf32", 8)],
    "aligned:8:float16": [("e3m2", "e2m1", 32)],
    "fused:13": [("e4m3", "e4m3fnuz", 32)],
    "fused:25": [("bf16", "bf16", 16)],
    "fused:13:bfloat16": [("e5m2", "e5m2", 16)],
    "hopper": [("e4m3", "e5m2", 48)],
    "hopper-promoted": [("e4m3", "e4m3", 32)],
    "hopper-mx": [("e5m2", "e5m2", 32)],
    "hopper-fp16": [("fp16", "fp16", 32)],
    "hopper-tf32": [("tf32", "tf32", 16)],
    "hopper-mma": [("e4m3", "e4m3", 34)],
    "hopper-mma-float16": [("e4m3", "e5m2", 33)],
    "ampere-float16": [("fp16", "fp16", 16)],
    "blackwell": [("e2m1", "e3m2", 32)],
    "exact": [("e4m3", "e4m3", 32), ("bf16", "tf32", 8)],
    "int32": [("int8", "int4", 32)],
    "cdna1-fp16": [("fp16", "fp16", 10)],
    "fixed:48:-20": [("e4m3", "e4m3", 32)],
    "fixed:24:-10:wrap": [("e5m2", "e4m3", 16)],
    "fixed:600:-300": [("bf16", "fp16", 8)],
    "float32": [("e4m3", "e4m3", 32), ("bf16", "bf16", 13)],
    "float16": [("e4m3", "e4m3", 16)],
    "bfloat16": [("int8", "fp16", 16)],
    "cdna2-fp16": [("fp16", "bf16", 10)],
    "arm-fp8-dot-float16": [("e5m2", "e4m3", 11)],
    "amx-bf16": [("bf16", "bf16", 37)],
    "avx512-bf16": [("bf16", "bf16", 7)],
    "cdna3-fp16": [("fp16", "bf16", 10)],
    "cdna3-fp8": [("e4m3fnuz", "e5m2fnuz", 20)],
    "blackwell-mxf4nvf4": [("e2m1", "e2m1", 24)],
}
"""Pairs of formats and sizes of blocks, by rules."""
BLOCKS = 3


@dataclass(frozen=True)
class Expected:
    """Operands of dot products, and their results plus 2^32 times their flags."""

    cases: Cases
    packed: NDArray[np.int64]


def expected(rule: str, a: str, b: str, block: int, count: int, seed: int) -> Expected:
    """Hostile operands, and what the model computes of them."""
    cases = random_cases(np.random.default_rng(seed), (a, b), count, BLOCKS, block)
    with any_operands():
        trace = dot(cases.a, cases.b, rule, cases.c, trace=True, stages=False)
    flags = sum(
        getattr(trace.flags, name).astype(np.int64) << place
        for place, name in enumerate(FLAG_NAMES)
    )
    return Expected(cases, trace.result.view(np.uint32).astype(np.int64) + (flags << 32))


_RUNNER = """#include "{header}"
void run(size_t n, size_t blocks, size_t block, const void *a, const void *b, const uint8_t *sa,
         const uint8_t *sb, const uint32_t *c, uint32_t *bits, uint32_t *flags) {{
  size_t i, step = blocks * block;
  for (i = 0; i < n; i++) {{
    {name}_result r = {name}((const uint{a}_t *)a + i * step, (const uint{b}_t *)b + i * step,
                             sa + i * blocks, sb + i * blocks, blocks, block, c[i]);
    bits[i] = r.bits;
    flags[i] = r.flags;
  }}
}}
"""
STRICT = ("-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-pedantic")


class Compiled:
    """A header in a program of C."""

    def __init__(self, rule: str, a: str, b: str, folder: Path, cases: Cases) -> None:
        name = "compiled_rule"
        (folder / "rule.h").write_text(export("c", rule, a, b, name=name), encoding="utf-8")
        widths = {side: 8 * codes.dtype.itemsize for side, codes in _codes(cases).items()}
        text = _RUNNER.format(header="rule.h", name=name, **widths)
        (folder / "run.c").write_text(text, encoding="utf-8")
        command = ["gcc", "-std=c99", "-O2", *STRICT, "-shared", "-fPIC", "-o", "run.so", "run.c"]
        subprocess.run(command, cwd=folder, check=True)
        self.run = ctypes.CDLL(str(folder / "run.so")).run

    def results(self, cases: Cases) -> NDArray[np.int64]:
        """Results plus 2^32 times flags."""
        n, block = len(cases), cases.a.block_size
        bits, flags = np.zeros((2, n), np.uint32)
        codes = _codes(cases)
        arrays = (codes["a"], codes["b"], cases.a.scales, cases.b.scales, cases.c.view(np.uint32))
        held = [np.ascontiguousarray(array) for array in arrays]
        sizes = [ctypes.c_size_t(size) for size in (n, cases.a.scales.shape[1], block)]
        self.run(*sizes, *(array.ctypes.data_as(ctypes.c_void_p) for array in (*held, bits, flags)))
        return bits.astype(np.int64) + (flags.astype(np.int64) << 32)


def _codes(cases: Cases) -> dict[str, NDArray]:
    return {"a": cases.a.codes, "b": cases.b.codes}


def differing(want: Expected, results: NDArray[np.int64]) -> list[str]:
    """The first dot products that differ, in hexadecimal."""
    lines = []
    for i in np.flatnonzero(results != want.packed)[:3]:
        case = want.cases[i : i + 1]
        operands = [case.a.codes, case.b.codes, case.a.scales, case.b.scales]
        texts = [" ".join(f"{code:x}" for code in array[0]) for array in operands]
        c = int(case.c.view(np.uint32)[0])
        lines.append(f"{i}: {results[i]:x}, not {want.packed[i]:x}: {' | '.join(texts)} | {c:x}")
    return lines
