"""The flow `cells`: areas in a library's unit, its NAND2, timing and targets."""

import gzip
import re
import shutil
from math import ceil

import pytest

from mxdot.synth import Flow, SynthesisError, gates, measure, opensta, tools

ADDER = """
module adder #(parameter WIDTH = 8)
  (input clk, input rst, input [WIDTH-1:0] a, b, output reg [WIDTH-1:0] sum);
  always @(posedge clk) if (rst) sum <= 0; else sum <= a + b;
endmodule
"""
NO_STA = "OpenSTA is not installed here: its script alone was tested, by a stand-in"


@pytest.fixture
def liberty(tmp_path):
    """The generic library with all areas doubled."""
    text = re.sub(r"area : ([\d.]+)", lambda found: f"area : {2 * float(found[1])}", TEXT)
    path = tmp_path / "own.lib"
    path.write_text(text)
    return path


TEXT = gates.liberty_text().replace("library (gates)", "library (own)")


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A program sta that reports a slack of 200000 ps less than the period it was given."""
    program = tmp_path / "bin" / "sta"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = -version ]; then echo 9.9.9; exit 0; fi\n'
        "test -s mapped.v && test -s cells.lib || exit 3\n"
        "grep -q bad_slack script.tcl && exit 4\n"
        "period=$(sed -n 's/.*-period \\([0-9.]*\\).*/\\1/p' script.tcl | head -1)\n"
        'echo "worst slack $(echo "$period 1234" | awk \'{print $1 - $2}\')"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    tools.sta_version.cache_clear()
    yield program
    tools.sta_version.cache_clear()


def flow(liberty, **options):
    return Flow("cells", liberty=liberty, **options)


def test_area_in_the_library_and_in_nand2(liberty, tmp_path):
    found = measure(ADDER, "adder", flow(liberty, timing="abc"), cache_dir=tmp_path)
    generic = measure(ADDER, "adder", cache_dir=tmp_path)
    assert found.unit == "um2"
    assert found.nand2 == found.area / 2
    assert found.extra["sequential"] == 8 * 12
    assert found.flipflops == generic.flipflops == 8
    assert found.nand2 is not None
    assert abs(found.nand2 - generic.area) < 0.2 * generic.area
    assert (found.extra["library"], found.extra["timing"]) == ("own", "ABC")


def test_own_timing_is_the_default(liberty, tmp_path):
    found = measure(ADDER, "adder", flow(liberty), cache_dir=tmp_path)
    assert found.delay_ps is not None
    assert found.depth is not None
    # The library's flip-flops have no delay; inverters are a picosecond.
    assert found.delay_ps == pytest.approx(100 * found.depth, abs=20)
    assert found.fmax_mhz == 1e6 / found.delay_ps
    assert found.extra["timing"] == "mxdot"


def test_abc_times_gates_alone(liberty, tmp_path):
    found = measure(ADDER, "adder", flow(liberty, timing="abc"), cache_dir=tmp_path)
    assert found.depth is not None
    assert found.delay_ps is not None
    assert abs(found.delay_ps - 100 * found.depth) < 100  # the library's delays are levels
    assert found.fmax_mhz is None  # ABC does not see the flip-flops


def test_opensta_gets_a_netlist_and_says_the_slack(liberty, stand_in, tmp_path):
    found = measure(ADDER, "adder", flow(liberty, timing="opensta"), cache_dir=tmp_path)
    assert found.delay_ps == pytest.approx(1234, abs=0.01)
    assert found.fmax_mhz == pytest.approx(1e6 / 1234, rel=1e-4)
    assert "OpenSTA 9.9.9" in found.tool


def test_opensta_breaks_off(liberty, stand_in, tmp_path):
    stand_in.write_text(stand_in.read_text().replace("test -s", "echo 'Error: no way'; test -d"))
    with pytest.raises(SynthesisError, match=r"OpenSTA on design\.v: no way"):
        measure(ADDER, "adder", flow(liberty, timing="opensta"), cache_dir=tmp_path)


def test_opensta_itself(liberty, tmp_path, capsys):
    tools.sta_version.cache_clear()
    if shutil.which("sta") is None:
        with capsys.disabled():
            print(f"\n{NO_STA}")
        with pytest.raises(SynthesisError, match="OpenSTA is not installed: there is no program"):
            measure(ADDER, "adder", flow(liberty, timing="opensta"), cache_dir=tmp_path)
        return
    found = measure(ADDER, "adder", flow(liberty, timing="opensta"), cache_dir=tmp_path)
    assert found.depth is not None
    # The library's flip-flops have no delay; inverters are a picosecond.
    assert found.delay_ps == pytest.approx(100 * found.depth, abs=20)


def test_script_for_opensta(liberty, stand_in, tmp_path, monkeypatch):
    """Clock, ports on both sides, and no path from the reset."""
    seen = []
    run = opensta.run_sta
    monkeypatch.setattr(opensta, "run_sta", lambda *a: seen.append(a[0]) or run(*a))
    options = {"timing": "opensta", "sections": False}
    measure(ADDER, "adder", flow(liberty, **options), cache_dir=tmp_path)
    (script,) = seen
    assert len(re.findall(r"create_clock -name n\d+ ", script)) == 1
    assert script.count("set_input_delay") == 17
    assert script.count("set_output_delay") == 8
    assert script.count("set_false_path") == 1


@pytest.mark.parametrize(
    ("name", "reset"),
    [("rst", 1), ("reset_n", 1), ("aresetn", 1), ("i_rst_ni", 1), ("burst", 0), ("first", 0)],
)
def test_names_of_resets(name, reset):
    assert bool(opensta.RESET.fullmatch(name)) == bool(reset)


def test_target(liberty, tmp_path):
    options = {"cache_dir": tmp_path, "parameters": {"WIDTH": 24}}
    fast = measure(ADDER, "adder", flow(liberty, timing="abc"), **options)
    assert fast.delay_ps is not None
    slow = measure(ADDER, "adder", flow(liberty, timing="abc", target_ps=9000), **options)
    assert slow.area < fast.area
    target = int(1.3 * fast.delay_ps)
    near = measure(ADDER, "adder", flow(liberty, timing="abc", target_ps=target), **options)
    assert near.delay_ps is not None
    assert near.delay_ps <= target
    assert slow.area <= near.area
    message = r"target_ps of 5 cannot be met: the fastest adder that was found has \d+ ps"
    with pytest.raises(SynthesisError, match=message):
        measure(ADDER, "adder", flow(liberty, timing="abc", target_ps=5), **options)


MAC = """
module mac (input clk, input [7:0] a, b, c, d, output reg [16:0] sum);
  always @(posedge clk) sum <= a * b + c * d;
endmodule
"""


@pytest.mark.parametrize("slack", [1.0, 1.1])
def test_a_target_takes_no_more_than_an_effort_that_meets_it(slack, tmp_path):
    """At 1.1 times its delay `balanced` is the smallest, and without it `speed` takes 50% more."""

    def found(**options):
        options |= {"sections": False}
        where = {"cache_dir": tmp_path}
        return measure(MAC, "mac", Flow.of_process("sky130", **options), **where)

    plain = found(effort="balanced")
    assert plain.delay_ps is not None
    target = ceil(slack * plain.delay_ps)
    near = found(target_ps=target)
    aimed = [found(effort=effort, aim_ps=target) for effort in ("area", "balanced", "speed")]
    assert near.delay_ps is not None
    assert near.delay_ps <= target
    met = [cost.area for cost in (plain, *aimed) if (cost.delay_ps or 0) <= target]
    assert near.area == min(met)


def test_library_decides_the_cache_key(liberty, tmp_path):
    first = measure(ADDER, "adder", flow(liberty, timing="abc"), cache_dir=tmp_path)
    liberty.write_text(TEXT)
    second = measure(ADDER, "adder", flow(liberty, timing="abc"), cache_dir=tmp_path)
    assert second.area == first.area / 2
    packed = tmp_path / "packed.lib.gz"
    packed.write_bytes(gzip.compress(TEXT.encode()))
    third = measure(ADDER, "adder", flow(packed, timing="abc"), cache_dir=tmp_path)
    assert third == second
    marked = tmp_path / "marked.lib"
    marked.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())  # a byte order mark, as editors write
    assert measure(ADDER, "adder", flow(marked, timing="abc"), cache_dir=tmp_path) == second


def test_what_abc_says_of_a_library(tmp_path):
    cells = re.split(r"(?=  cell \(|^}$)", TEXT, flags=re.M)
    few = [cell for cell in cells if not re.match(r"  cell \((?!INV|NAND2|DFF\))", cell)]
    (tmp_path / "few.lib").write_text("".join(few))
    with pytest.raises(SynthesisError, match="ABC: Library with only 2 cell classes"):
        measure(ADDER, "adder", flow(tmp_path / "few.lib"), cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        (("library (own)", "library own"), "'library' must be followed by ':' or '('"),
        (("!(A & B)", "A & B"), "library own has no two-input NAND cell"),
        (
            ("timing () {", "internal_power () {"),
            "library own has no timing, which mapping needs: none of its gates has a delay table",
        ),
    ],
)
def test_libraries_that_do_not_serve(change, message, tmp_path):
    path = tmp_path / "bad.lib"
    if change:
        path.write_text(TEXT.replace(*change))
    with pytest.raises(SynthesisError, match=re.escape(message)) as error:
        measure(ADDER, "adder", flow(path), cache_dir=tmp_path / "cache")
    assert "\n" not in str(error.value)


def test_library_without_flipflops(tmp_path):
    path = tmp_path / "gates_only.lib"
    path.write_text(TEXT[: TEXT.index("  cell (DFF)")] + "}\n")
    with pytest.raises(SynthesisError, match=r"(FF|_DFF_|flip-flop)"):
        measure(ADDER, "adder", flow(path), cache_dir=tmp_path / "cache")
