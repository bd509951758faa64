"""`make verify`: a step with a row of today's code and values does not run again."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import evidence
import figure_inputs
import pytest
import verify_steps as tool

from mxdot.util.jobs import Backend
from mxdot.util.store import Store

TOOLS = evidence.ROOT / "tools"
MAKE = f"""#!{sys.executable}
import subprocess, sys
from pathlib import Path
step, *values = sys.argv[1:]
if step.startswith("verify-"):
    tool = [sys.executable, "tools/evidence.py", "step", step[7:], sys.argv[0], step[7:]]
    sys.exit(subprocess.run([*tool, *values]).returncode)
with Path("build/ran").open("a") as file:
    print(step, *values, file=file)
print("result of", step)
sys.exit(Path("fails").exists() and step == "soak")
"""
FAILED = ["verify: formal passed", "verify: soak FAILED: exit status 1"]
PASSED = ["verify: formal passed", "verify: soak passed"]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with a file of code in some folders, and the current directory."""
    for name in ("build", "docs", *evidence.ALL, "verify/soak"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / "docs" / "evidence.md").write_text("<!-- evidence: steps -->\n<!-- end -->\n")
    for name in ("hw/unit.py", "hw/main.cc", "sim/unit.py", "Makefile/x", *evidence.LOCKS):
        (tmp_path / name).write_text("one")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Runs:
    """Runs two steps, the second with `values`: exit status, steps that ran, verdicts. `ends` are
    commands of the shell at the ends of steps."""

    def __init__(self, capsys):
        self.capsys, self.ran, self.ends = capsys, [], {}

    def make(self, command, check):
        name, *values = command[1].removeprefix("verify-"), *command[2:]
        self.ran.append(" ".join([name, *values]))
        shell = ["sh", "-c", f"echo result of {name}; {self.ends.get(name, 'true')}", *values]
        return SimpleNamespace(returncode=evidence.step(name, shell))

    def __call__(self, *values):
        self.ran.clear()
        self.capsys.readouterr()
        status = tool.main(["make", "formal", "soak", *values])
        return status, self.ran, self.capsys.readouterr().out.splitlines()[-2:]


@pytest.fixture
def verify(checkout, monkeypatch, capsys):
    """In this process; soak fails."""
    monkeypatch.setattr(figure_inputs, "ROOT", checkout)
    monkeypatch.setattr(evidence, "DATA", checkout / "docs" / "evidence.json")
    monkeypatch.setattr(evidence, "PAGE", checkout / "docs" / "evidence.md")
    monkeypatch.setattr(evidence, "KEPT", Store(checkout / "build" / "evidence"))
    monkeypatch.setattr(tool, "processes", lambda width: Backend(ThreadPoolExecutor, width))
    runs = Runs(capsys)
    monkeypatch.setattr(tool, "subprocess", SimpleNamespace(run=runs.make))
    runs.ends["soak"] = "exit 1"
    yield runs
    evidence.digest_of.cache_clear()


def test_what_has_passed_is_not_run_again(checkout):
    """By processes. Rows of docs/evidence.json alone suffice."""
    shutil.copytree(
        TOOLS, "tools", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )
    make, ran, fails = Path("build/make"), Path("build/ran"), Path("fails")
    make.write_text(MAKE)
    make.chmod(0o755)
    fails.touch()
    for steps, told in ((["formal", "soak"], FAILED), (["soak"], PASSED)):
        ran.unlink(missing_ok=True)
        command = [sys.executable, "tools/verify_steps.py", make.resolve(), "formal", "soak"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, ran.read_text().split()) == (told == FAILED, steps)
        assert done.stdout.splitlines()[-2:] == told
        shutil.rmtree("build/evidence", ignore_errors=True)
        Path("docs/new.md").touch()
        Path("hw/unit.py").write_text("one  # a remark")
        fails.unlink(missing_ok=True)
    assert "| `make soak` | result of soak |" in Path("docs/evidence.md").read_text()


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "hw" / "unit.py").write_text("two"),
        lambda root: (root / "hw" / "main.cc").write_text("two"),
        lambda root: (root / "hw" / "new.py").touch(),
        lambda root: (root / "hw" / "unit.py").rename(root / "hw" / "other.py"),
        lambda root: (root / "requirements.lock").write_text("two"),
    ],
)
def test_other_code_runs_it_again(change, verify, checkout):
    assert verify() == (1, ["formal", "soak"], FAILED)
    verify.ends.clear()
    assert verify() == (0, ["soak"], PASSED)
    assert verify() == (0, [], PASSED)
    change(checkout)
    assert verify() == (0, ["formal", "soak"], PASSED)


def test_code_of_another_step_runs_only_that(verify, checkout):
    verify.ends.clear()
    verify()
    (checkout / "verify" / "soak" / "unit.py").write_text("one")
    assert verify()[1] == ["soak"]


def test_more_time_runs_it_again(verify):
    verify.ends.clear()
    assert verify("HOURS=1")[1] == ["formal", "soak HOURS=1"]
    assert verify("HOURS=1")[1] == []
    assert verify("HOURS=10")[1] == ["soak HOURS=10"]
    assert verify("HOURS=2.5")[1] == []
    assert "| `make soak HOURS=10` |" in Path("docs/evidence.md").read_text()
    assert verify("HOURS=long")[1] == ["soak HOURS=long"]


def test_fresh_begins_anew_and_a_dry_run_lists(verify):
    verify()
    assert verify("--dry-run", "HOURS=2")[1:] == (
        [],
        ["about    2 h 0 min  soak", "1 of 2 done, 1 to do, 1 at a time: about 2 h 0 min"],
    )
    assert verify("--dry-run", "--fresh")[2][1].startswith("2 to do, 1 at a time")
    assert verify()[1] == ["soak"]
    assert verify("--fresh")[1] == ["formal FRESH=1", "soak FRESH=1"]
    assert verify()[1] == ["soak"]


def test_an_interrupted_run_that_began_anew_goes_on_so(verify, checkout):
    verify.ends.clear()
    verify()
    verify.ends["soak"] = "kill $PPID; kill -9 $$"
    with pytest.raises(KeyboardInterrupt):
        verify("--fresh")
    rows = json.loads((checkout / "docs" / "evidence.json").read_text())
    assert [rows[f"step {name}"]["digest"] == "" for name in ("formal", "soak")] == [False, True]
    verify.ends.clear()
    assert verify() == (0, ["soak FRESH=1"], PASSED)


def test_a_step_whose_code_changes_meanwhile_fails(verify):
    verify.ends = {"formal": "echo 2 > hw/unit.py"}
    status, steps, told = verify()
    assert (status, steps) == (1, ["formal", "soak"])
    since = "FAILED: it has passed, and its code has changed since"
    assert told == [f"verify: formal {since}", "verify: soak passed"]
