"""Small designs: as Verilog in a program made by Verilator, and in Amaranth's own simulator."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from amaranth.sim import Simulator

from mxdot.hw.verilog import Around
from mxdot.sim.engine.toolchain import (
    CFLAGS,
    Tools,
    execute,
    find_tools,
    including,
    precompiled_headers,
    runtime_archive,
)

Rows = dict[str, list[int]]  # a value for each case, or cycle, of every port


def simulated(design: Around, inputs: Rows) -> Rows:
    """The outputs in Amaranth's simulator: of every case, or in every cycle before its end."""
    rows: Rows = {name: [] for name in design.outputs}

    async def bench(ctx):
        for row in zip(*inputs.values(), strict=True):
            for name, value in zip(inputs, row, strict=True):
                ctx.set(design.signals[name], value)
            await ctx.delay(1e-7)
            for name, values in rows.items():
                values.append(ctx.get(design.signals[name]))
            if design.clock:
                await ctx.tick()

    simulator = Simulator(design)
    if design.clock:
        simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return rows


def packed(widths: Mapping[str, int], rows: Rows) -> list[int]:
    """The values of all ports of a case in one number, the first port lowest."""
    words = [0] * len(next(iter(rows.values())))
    low = 0
    for name, width in widths.items():
        words = [word | value << low for word, value in zip(words, rows[name], strict=True)]
        low += width
    return words


def bench_text(designs: Mapping[str, tuple[Around, int]]) -> str:
    """A bench in Verilog: each design, by its top module, on the cases of NAME_in.hex.

    Where its outputs first differ from NAME_out.hex it prints a line: `NAME case: got, want`; of a
    design with registers after the first case, in which it should be reset.
    """
    parts, steps = [], []
    for name, (design, cases) in designs.items():
        pins = [".clk(clk)"] if design.clock else []
        for side, widths in (("in", design.inputs), ("out", design.outputs)):
            total = sum(widths.values())
            kind = "reg" if side == "in" else "wire"
            parts.append(f"  {kind} [{total - 1}:0] {name}_{side};")
            parts.append(f"  reg [{total - 1}:0] {name}_{side}s [0:{cases - 1}];")
            low = 0
            for port, width in widths.items():
                pins.append(f".{port}({name}_{side}[{low + width - 1}:{low}])")
                low += width
        parts.append(f"  {name} dut_{name} ({', '.join(pins)});")
        steps += [
            f'    $readmemh("{name}_in.hex", {name}_ins);',
            f'    $readmemh("{name}_out.hex", {name}_outs);',
            "    same = 1;",
            f"    for (n = 0; n < {cases}; n = n + 1) begin",
            f"      {name}_in = {name}_ins[n]; #1;",
            f"      if (same && n >= {len(design.clock)} && {name}_out !== {name}_outs[n]) begin",
            f'        $display("{name} %0d: %h, %h", n, {name}_out, {name}_outs[n]);',
            "        same = 0;",
            "      end",
            *(["      clk = 1; #1; clk = 0; #1;"] if design.clock else []),
            "    end",
        ]
    head = ["module bench;", "  reg clk = 0; reg same; integer n;"]
    tail = ['    $display("end");', "    $finish;", "  end", "endmodule", ""]
    return "\n".join([*head, *parts, "  initial begin", *steps, *tail])


def differences(designs: Mapping[str, tuple[Around, Rows]], directory: Path) -> list[str]:
    """Designs, by name with their inputs, whose Verilog differs from Amaranth's simulator."""
    for name, (design, inputs) in designs.items():
        (directory / f"{name}.v").write_text(design.verilog(name))
        sides = {"in": inputs, "out": simulated(design, inputs)}
        for side, widths in (("in", design.inputs), ("out", design.outputs)):
            words = "".join(f"{word:x}\n" for word in packed(widths, sides[side]))
            (directory / f"{name}_{side}.hex").write_text(words)
    cases = {
        name: (design, len(next(iter(inputs.values()))))
        for name, (design, inputs) in designs.items()
    }
    (directory / "bench.v").write_text(bench_text(cases))
    program = compile_bench(directory, "bench", ["bench.v", *(f"{name}.v" for name in designs)])
    done = subprocess.run([program], cwd=directory, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    return lines[: lines.index("end")]


def compile_bench(directory: Path, top: str, sources: Sequence[str]) -> Path:
    """The bench `top` of Verilog files in `directory` as a program, for running there."""
    objects, tools, make = _translate(directory, top, sources)
    headers = precompiled_headers(objects, tools, make)
    libraries = linked(runtime_archive(objects, tools, make, headers))
    make = including(make, headers)
    make += ["VM_GLOBAL_FAST=", "VM_GLOBAL_SLOW=", f"LDLIBS={libraries}"]
    execute(make, tools, f"the compilation of {top}")
    return objects / "bench"


def runtime(directory: Path) -> Path:
    """Verilator's own runtime as an archive, which all such programs share."""
    (directory / "nothing.v").write_text("module nothing; initial #1 $finish; endmodule\n")
    made = _translate(directory, "nothing", ["nothing.v"])
    return runtime_archive(*made, precompiled_headers(*made))


def linked(archive: Path) -> str:
    """Flags that link the archive."""
    return f"-Wl,--whole-archive {archive} -Wl,--no-whole-archive -pthread"


def _translate(directory: Path, top: str, sources: Sequence[str]) -> tuple[Path, Tools, list[str]]:
    """A bench as C++: where it is, the tools, and the command that compiles it."""
    tools, objects = find_tools(), directory.resolve() / "obj"
    verilate = [
        "verilator", "--cc", "--exe", "--main", "--timing", "-Wno-fatal", "-Mdir", "obj",
        "--prefix", "Vtop", "--top-module", top, "-o", "bench", "-CFLAGS", CFLAGS, *sources,
    ]  # fmt: skip
    done = subprocess.run(
        verilate, cwd=directory, env=tools.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    make = ["make", "-C", str(objects), "-f", "Vtop.mk", f"PYTHON3={sys.executable}"]
    make += ["AR=ar", "CXX=g++", "LINK=g++", "VM_PARALLEL_BUILDS=0", "USER_CPPFLAGS="]
    make += ["OPT_FAST=-O0", "OPT_SLOW=-O0", "OPT_GLOBAL=-O0"]
    return objects, tools, make
