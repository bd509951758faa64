"""`avx512-bf16` against VDPBF16PS of this computer, where its CPU has the instruction.

NaN counts as NaN, whatever its bits, and -0 as +0.
"""

import subprocess

import numpy as np
import pytest

from cases import OPERANDS, random_cases
from compare import FULL, generator
from mxdot.model import dot

COUNT = 100_000 if FULL else 2000
PROGRAM = r"""
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>

__attribute__((target("avx512f,avx512bf16"))) static uint32_t dot(const uint32_t *row) {
  __m512bh a = (__m512bh)_mm512_set1_epi32(row[0]), b = (__m512bh)_mm512_set1_epi32(row[1]);
  __m512 c = _mm512_castsi512_ps(_mm512_set1_epi32(row[2]));
  __m512i result = _mm512_castps_si512(_mm512_dpbf16_ps(c, a, b));
  return _mm_cvtsi128_si32(_mm512_castsi512_si128(result));
}

int main() {
  uint32_t row[3], result;
  if (!__builtin_cpu_supports("avx512bf16")) return 3;
  while (fread(row, 4, 3, stdin) == 3) {
    result = dot(row);
    fwrite(&result, 4, 1, stdout);
  }
  return 0;
}
"""


@pytest.fixture(scope="module")
def instruction(tmp_path_factory):
    """Function of rows (a, b, c), two elements to a word, to float32 results."""
    folder = tmp_path_factory.mktemp("vdpbf16ps")
    (folder / "dot.cc").write_text(PROGRAM)
    subprocess.run(["g++", "-O1", "dot.cc", "-o", "dot"], cwd=folder, check=True)

    def run(rows):
        done = subprocess.run([folder / "dot"], input=rows.tobytes(), capture_output=True)
        return done.returncode, np.frombuffer(done.stdout, np.float32)

    if run(np.zeros((0, 3), np.uint32))[0] == 3:
        pytest.skip("this CPU has no VDPBF16PS")
    return lambda rows: run(rows)[1]


@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.contract("M28", "M29")
def test_the_row_is_the_instruction(name, instruction):
    rng = generator("vdpbf16ps", name)
    cases = random_cases(rng, ("bf16", "bf16"), COUNT, 1, 2, operands=[name], scales=["unit"])
    sides = [x.codes.astype(np.uint16).view(np.uint32) for x in (cases.a, cases.b)]
    rows = np.column_stack([*sides, cases.c.view(np.uint32)])
    np.testing.assert_array_equal(instruction(rows), dot(cases.a, cases.b, "avx512-bf16", cases.c))
