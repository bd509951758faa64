"""Exports in SystemVerilog, by Verilator, against the model: 10,000 hostile dot products per rule.

`MXDOT_SEED=n` draws others.
"""

import os
import subprocess

import numpy as np
import pytest

from compare import some
from exports import BLOCKS, differing, expected
from mxdot.model.export import export
from verilog_bench import compile_bench

SEED = int(os.environ.get("MXDOT_SEED", "1"))
COUNT = 10_000
RULES = {
    "rvbna:8": ("e4m3", "e4m3", 12),
    "aligned:8:float16": ("int8", "e2m1", 16),
    "fused:25": ("bf16", "tf32", 8),
    "hopper": ("e4m3", "e5m2", 34),
    "hopper-mma-float16": ("e4m3", "e5m2", 33),
    "exact": ("fp16", "e4m3", 8),
    "fixed:48:-20": ("e4m3", "e4m3", 16),
    "float32": ("e4m3fnuz", "e5m2", 9),
    "cdna2-fp16": ("fp16", "bf16", 6),
    "amx-bf16": ("bf16", "bf16", 6),
    "cdna3-fp8": ("e4m3fnuz", "e4m3fnuz", 12),
    "blackwell-mxf4nvf4": ("e2m1", "e2m1", 24),
}
BENCH = """module bench;
  rule::codes_t a, b, scale_a, scale_b;
  logic [31:0] c;
  int file, count, blocks, block, status;
  initial begin
    file = $fopen("rule.txt", "r");
    status = $fscanf(file, "%d %d %d", count, blocks, block);
    a = new[blocks * block];
    b = new[blocks * block];
    scale_a = new[blocks];
    scale_b = new[blocks];
    for (int i = 0; i < count; i++) begin
      for (int j = 0; j < blocks * block; j++) status = $fscanf(file, "%h", a[j]);
      for (int j = 0; j < blocks * block; j++) status = $fscanf(file, "%h", b[j]);
      for (int j = 0; j < blocks; j++) status = $fscanf(file, "%h", scale_a[j]);
      for (int j = 0; j < blocks; j++) status = $fscanf(file, "%h", scale_b[j]);
      status = $fscanf(file, "%h", c);
      $display("%h", rule::compute(a, b, scale_a, scale_b, block, c));
    end
    $finish;
  end
endmodule
"""


def write_cases(path, cases):
    """Write the operands, a dot product per line."""
    c = cases.c.view(np.uint32)[:, None]
    sides = (cases.a.codes, cases.b.codes, cases.a.scales, cases.b.scales, c)
    rows = np.hstack([side.astype(np.int64) for side in sides]).tolist()
    lines = [" ".join(f"{word:x}" for word in row) for row in rows]
    head = f"{len(cases)} {BLOCKS} {cases.a.block_size}"
    path.write_text("\n".join([head, *lines, ""]))


@pytest.mark.parametrize("rule", some(RULES, 2))
def test_systemverilog_is_the_model(rule, tmp_path):
    a, b, block = RULES[rule]
    want = expected(rule, a, b, block, COUNT, SEED)
    (tmp_path / "rule.sv").write_text(export("sv", rule, a, b, name="rule"))
    (tmp_path / "bench.sv").write_text(BENCH)
    write_cases(tmp_path / "rule.txt", want.cases)
    program = compile_bench(tmp_path, "bench", ["rule.sv", "bench.sv"])
    done = subprocess.run([program], cwd=tmp_path, capture_output=True, text=True, check=True)
    results = [int(line, 16) for line in done.stdout.splitlines()[:COUNT]]
    assert differing(want, np.array(results)) == []
