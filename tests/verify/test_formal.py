"""Proofs of `make formal`: some of each kind, that they bite, and the table of them."""

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import evidence
import pytest

from changed_code import change
from command_line import refusal, run
from here import HERE
from mxdot.cli import main
from mxdot.hw.arithmetic.scale import ScaleAdder
from mxdot.util.jobs import execute
from mxdot.verify import command as checks
from mxdot.verify.command import Session
from mxdot.verify.formal import engine, linear
from mxdot.verify.formal import run as command
from mxdot.verify.formal.claim import Claim, prove
from mxdot.verify.formal.engine import Verdict, decide, decide_first
from mxdot.verify.formal.observer import ObservedUnit, component, cut
from mxdot.verify.formal.values import FAR_BELOW

LIMIT = 120  # seconds
CLAIMS = {claim.name: claim for claim in command.claims()}


TRIED = [
    "scale-adder",
    "multiplier:4",
    "full-adder-row:32",
    "adder-tree:4x4",
    "rounder:float16-rne-28",
    "requantize:int4_symmetric",
    "shift:27",
    "align:3",
    "adder:at-once",
    "normalizer:27-limited",
    "order:exact-1",
    "stream:fused3-3",
    "chain:fused3-2-i2",
    "stream:quantize-2-beats",
    "order:quantize-2-beats",
    "sum:exact-e2m1",
    "largest:aligned13-e2m1",
    "largest:fused13-e2m1",
    "terms:fused13-e2m1",
    "total:fused13-e2m1",
    "round:fused13-e2m1",
    "fact:scale-ratio",
    "fact:dot-quantize-sums",
    "counters",
    "registers:read",
    "registers:write",
    "tiles",
    "receiver:3",
    "netlist:quantize-asap7",
    "sums:quantize-choice",
    "least:quantize-choice",
    "order:quantize-lfsr",
]
SLOW = {
    "scale-multiplier", "loop", "lfsr", "packets", "length", "ends", "errors", "gate-idle",
    "assertions",
}  # fmt: skip
"""Kinds of claims that `make formal` alone proves; test_assertions.py has assertions."""


@pytest.mark.slow_except(7)
@pytest.mark.parametrize("name", TRIED)
def test_claims_hold_and_fail_with_a_bug(name, tmp_path):
    result = prove(CLAIMS[name], tmp_path, LIMIT)
    assert result.verdict is Verdict.PROVED, f"make formal ARGS='--only {name}'"
    assert result.bug is Verdict.REFUTED, f"make formal ARGS='--only {name}'"


def test_each_kind_of_claim_is_tried():
    tried, kinds = ({name.partition(":")[0] for name in names} for names in (TRIED, CLAIMS))
    assert kinds - tried == SLOW


def test_registers_start_with_any_value(tmp_path):
    """A valid bit without a reset: harmless if it were 0 at first."""
    claim = CLAIMS["stream:exact-1"]
    unit = claim.subject()
    right = "if (rst) round_register_valid <= 1'b0;\n    else if ("
    assert right in unit.text
    wrong = replace(unit, text=unit.text.replace(right, "if (~rst & "))
    assert decide(wrong, claim.rule, tmp_path, LIMIT) is Verdict.REFUTED


COUNTER = """
module subject (input wire clk, rst, up, output reg [3:0] count);
  always @(posedge clk) count <= rst ? 4'd0 : count + up;
endmodule
"""


@pytest.mark.parametrize(("cycles", "verdict"), [(9, Verdict.PROVED), (10, Verdict.REFUTED)])
def test_a_claim_about_the_first_cycles(cycles, verdict, tmp_path):
    """A counter is 0 in the first cycle after a reset, and at most 9 in the tenth."""
    shapes: Any = {"rst": 1, "up": 1, "count": 4}
    counter = ObservedUnit(COUNTER, {"rst": 1, "up": 1}, shapes, "clk", "rst")
    found = decide_first(counter, lambda m, p: p.count == 9, tmp_path, LIMIT, cycles)
    assert found is verdict


@pytest.mark.parametrize(
    ("fixed", "verdict", "bits"),
    [
        (5, Verdict.PROVED, 8),
        ("00000101", Verdict.PROVED, 8),
        ("0000-101", Verdict.REFUTED, 9),  # 13 too
        ("-----10-", Verdict.REFUTED, 14),
    ],
)
def test_inputs_with_fixed_bits(fixed, verdict, bits, tmp_path):
    subject = replace(component(ScaleAdder()), tied={"p_a": fixed})
    assert subject.input_bits == bits
    assert decide(subject, lambda m, p: p.a != 5, tmp_path, LIMIT) is verdict


@pytest.mark.parametrize(
    ("tied", "message"),
    [
        ({"p_a": "0000101"}, "p_a must be tied to 8 of 0, 1 and -, not '0000101'"),
        ({"p_a": "-00000101"}, "p_a must be tied to 8 of 0, 1 and -, not '-00000101'"),
        ({"p_a": "0000010x"}, "p_a must be tied to 8 of 0, 1 and -, not '0000010x'"),
        ({"p_a": 256}, "p_a must be tied to 0 to 255, not 256"),
        ({"p_c": 1}, "tied must name inputs of the subject, not 'p_c'"),
    ],
)
def test_an_input_is_fixed_in_its_own_width(tied, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        replace(component(ScaleAdder()), tied=tied)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("", ""),
        ("i_products_sign[1]", "i_products_sign[0]"),  # a term of two lanes
        (".b(sum3_sum[5])", ".b(sum3_sum[4])"),  # a digit at another place
        ("sum1_carry[4:0]", "sum1_carry[5:1]"),  # carries at other places
        ("~i_negatives[1]", "i_negatives[1]"),  # a digit that is not inverted
    ],
)
def test_a_sum_that_is_wired_wrongly_is_none(right, wrong, tmp_path):
    text = CLAIMS["sum:exact-e2m1"].subject().text
    assert right in text
    netlist = linear.read(text.replace(right, wrong, 1), tmp_path, LIMIT)
    rows, a, b = (netlist.ports[name] for name in ("sum_o_rows_made", "in_a", "in_b"))
    lanes = [[*a[i : i + 4], *b[i : i + 4]] for i in range(0, 16, 4)]
    half = len(rows) // 2
    is_sum = linear.is_sum_of_lanes(netlist, (rows[:half], rows[half:]), lanes)
    assert is_sum == (right == wrong)


def test_nets_that_are_cut_are_between_sections():
    with pytest.raises(ValueError, match=r"^net must be one between sections, not 'out_result'$"):
        cut(CLAIMS["stream:exact-1"].subject(), "out_result")


def test_functions_of_one_lane_may_share_an_input(tmp_path):
    """The exponent that leads, and nothing else, of a sum of products that are cut."""
    text = CLAIMS["sum:aligned13-e2m1"].subject().text
    netlist = linear.read(text, tmp_path, LIMIT)
    rows, a, b = (netlist.ports[name] for name in ("sum_o_rows_made", "in_a", "in_b"))
    lanes = [[*a[i : i + 4], *b[i : i + 4]] for i in range(0, 16, 4)]
    half = len(rows) // 2
    words, leads = (rows[:half], rows[half:]), netlist.ports["largest1_o_largest"]
    assert linear.is_sum_of_lanes(netlist, words, lanes, leads)
    assert not linear.is_sum_of_lanes(netlist, words, lanes)


@pytest.mark.slow_except(7)
@pytest.mark.parametrize(("unit", "bug"), [("exact", False), ("exact", True), ("aligned13", True)])
def test_a_case_of_a_loop(unit, bug, tmp_path):
    """Case of the nearest grids, one of all that `make formal` tries."""
    claim = CLAIMS[f"loop:{unit}-e2m1"]
    subject = claim.seeded(claim.subject()) if bug else claim.subject()
    verdict = engine.decide(subject, claim.rule, tmp_path, LIMIT, [FAR_BELOW + 1])
    assert verdict is (Verdict.REFUTED if bug else Verdict.PROVED)


@pytest.mark.slow
def test_a_nan_code_that_is_left_out_is_found(tmp_path):
    """In the last case that `make formal` proves, of a c far above any sum."""
    claim = CLAIMS["loop:exact-e4m3"]
    subject = claim.subject()
    text = subject.text.replace("|{lane7_special_nan, ", "|{1'b0, ")
    assert text != subject.text
    last = [subject.cases - 1]
    verdict = engine.decide(replace(subject, text=text), claim.rule, tmp_path, LIMIT, last)
    assert verdict is Verdict.REFUTED


def test_the_evidence_has_every_claim_in_one_group():
    assert all(evidence.group_of(name) for name in CLAIMS)
    rows = {name.partition(" ")[2] for name in evidence.load() if name.startswith("proof ")}
    assert rows <= set(CLAIMS)


def test_a_claim_that_does_not_hold_is_an_exit_status(monkeypatch, tmp_path, capsys):
    wrong = Claim(
        "odd", "a sum", lambda: component(ScaleAdder()), lambda m, p: p.exponent != p.a + p.b
    )
    monkeypatch.setattr(command, "claims", lambda: iter([wrong]))
    session = Session(tmp_path, HERE)
    assert command.run("odd", session, list_only=False, limit=LIMIT, markdown=False) == 1
    out = capsys.readouterr().out
    assert "FAILED odd: refuted" in out
    (row,) = evidence.told(out.splitlines()).items()
    assert row[0] == "proof odd"
    assert row[1]["space"] == "2^16"
    assert row[1]["verdict"] == row[1]["bug"] == "refuted"


@pytest.mark.parametrize(("limit", "passed"), [("60", True), ("1e-6", False)])
def test_results_as_json(limit, passed, monkeypatch, tmp_path, capsys):
    """What ended, what failed and why, with the exit status of the whole."""
    monkeypatch.chdir(tmp_path)
    words = ["verify", "formal", "--only", "scale-adder", "--limit", limit, "--jobs", "1"]
    status = main([*words, "--json", "out/f.json"])
    results = json.loads((tmp_path / "out" / "f.json").read_text())
    assert (results["check"], results["passed"], status) == ("formal", passed, int(not passed))
    (proof,) = results["results"]
    assert proof["label"].startswith("scale-adder")
    assert capsys.readouterr().out.splitlines()[-1] == "out/f.json"


@pytest.mark.slow_except(7)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_run_goes_on(number, tmp_path):
    """Proved claims stay proved; `--fresh` begins anew, a dry run of it forgets nothing."""
    words = [
        sys.executable,
        "-m",
        "mxdot.cli",
        "verify",
        "formal",
        "--only",
        "adder:",
        "--jobs",
        "1",
    ]

    def start(*options):
        return subprocess.Popen(
            [*words, *options], cwd=tmp_path, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip

    results = tmp_path / "build" / "formal" / "results"
    with start() as process:
        deadline = time.monotonic() + 60
        while not list(results.glob("*.json")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    if number == signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert process.returncode == 130
        assert out == "interrupted; results are kept in build/formal, run it again to go on\n"
    kept = {path: path.stat().st_mtime_ns for path in results.glob("*.json")}
    assert 1 <= len(kept) < 5
    out, _ = start("--dry-run").communicate(timeout=60)
    assert f"{len(kept)} of 5 done, {5 - len(kept)} to do, 1 at a time" in out
    out, _ = start("--dry-run", "--fresh").communicate(timeout=60)
    assert "5 to do, 1 at a time" in out.splitlines()[-1]
    out, told = start().communicate(timeout=60)
    assert [line.split()[0] for line in out.splitlines()] == ["holds"] * 5
    assert f"{len(kept)} of 5 results are there already" in told
    assert all(path.stat().st_mtime_ns == modified for path, modified in kept.items())


def test_a_proof_whose_results_cannot_be_kept_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.access", lambda *question: False)
    said = refusal(capsys, "verify", "formal", "--only", "multiplier:2")
    assert said.startswith("results must be a directory that can be written, not ")
    assert run(capsys, "verify", "formal", "--only", "multiplier:2", "--list")[0] == 0


@pytest.mark.parametrize("file", ["model/dot.py", "verify/small_units.py"])
def test_a_worker_with_other_code_is_refused(file, monkeypatch):
    """The units of netlists are in `verify/small_units.py`."""
    proof = command.Proof("netlist:dot-aligned-asap7", LIMIT)
    key = proof.key
    change(monkeypatch, checks, file)
    outcome = execute(proof, key)
    assert outcome.key == key
    assert outcome.error == "code, tools or files differ from those at the start of the run"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nothing"], "only must be part of a claim's name (see --list), not 'nothing'"),
        (["--limit", "0"], "limit must be above 0, not 0"),
    ],
)
def test_bad_arguments_are_one_line(arguments, message, capsys):
    assert main(["verify", "formal", *arguments]) == 2
    assert capsys.readouterr().err == f"mxdot: error: {message}\n"


def test_a_proof_that_takes_too_long_is_a_failure(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # no proof is kept there
    assert main(["verify", "formal", "--only", "largest:32x5", "--limit", "0.01"]) == 1
    assert "took longer than 0.01 s" in capsys.readouterr().out
