"""`make verify`: a step with a row of today's code and values does not run again."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import evidence
import pytest

TOOLS = Path(evidence.__file__).parent
MAKE = f"""#!{sys.executable}
import os, subprocess, sys
from pathlib import Path
step, *values = sys.argv[1:]
if step.startswith("verify-"):
    if "FRESH=1" in values:
        values.remove("FRESH=1")
        os.environ["FRESH"] = "anew"
    tool = [sys.executable, "tools/evidence.py", "step", step[7:], sys.argv[0], step[7:]]
    sys.exit(subprocess.run([*tool, *values]).returncode)
with Path("build/ran").open("a") as file:
    print(*sys.argv[1:], *os.environ.get("FRESH", "").split(), file=file)
if Path("changes").exists():
    Path("hw/unit.py").write_text("changed")
print("result of", step)
sys.exit(Path("fails").exists() and step == "soak")
"""


@pytest.fixture
def verify(tmp_path):
    """Runs two steps in a checkout of its own, the second with `values`; exit status, steps that
    ran, verdicts."""
    (tmp_path / "build").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "evidence.md").write_text("<!-- evidence: steps -->\n<!-- end -->\n")
    shutil.copytree(TOOLS, tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    for name in (*evidence.ALL, "verify/soak"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    for name in ("hw/unit.py", "hw/main.cc", "sim/unit.py", "Makefile/unit.py", *evidence.LOCKS):
        (tmp_path / name).write_text("one")
    (tmp_path / "fails").touch()
    make = tmp_path / "build" / "make"
    make.write_text(MAKE)
    make.chmod(0o755)

    def verify(*values):
        ran = tmp_path / "build" / "ran"
        ran.unlink(missing_ok=True)
        command = [sys.executable, "tools/verify.py", make, "formal", "soak", *values]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        steps = ran.read_text().splitlines() if ran.exists() else []
        return done.returncode, steps, done.stdout.splitlines()[-2:]

    return verify


FAILED = ["verify: formal passed", "verify: soak FAILED: exit status 1"]
PASSED = ["verify: formal passed", "verify: soak passed"]


def test_what_has_passed_is_not_run_again(verify, tmp_path):
    """Rows of docs/evidence.json alone suffice."""
    assert verify() == (1, ["formal", "soak"], FAILED)
    shutil.rmtree(tmp_path / "build" / "evidence", ignore_errors=True)
    (tmp_path / "docs" / "new.md").touch()
    (tmp_path / "hw" / "unit.py").write_text("one  # a remark")
    assert verify() == (1, ["soak"], FAILED)
    (tmp_path / "fails").unlink()
    assert verify() == (0, ["soak"], PASSED)
    assert verify() == (0, [], PASSED)
    page = (tmp_path / "docs" / "evidence.md").read_text()
    assert "| `make soak` | result of soak |" in page


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
def test_other_code_runs_it_again(change, verify, tmp_path):
    (tmp_path / "fails").unlink()
    verify()
    change(tmp_path)
    assert verify() == (0, ["formal", "soak"], PASSED)


def test_code_of_another_step_runs_only_that(verify, tmp_path):
    (tmp_path / "fails").unlink()
    verify()
    (tmp_path / "verify" / "soak" / "unit.py").write_text("one")
    assert verify()[1] == ["soak"]


def test_more_time_runs_it_again(verify, tmp_path):
    (tmp_path / "fails").unlink()
    assert verify("HOURS=1")[1] == ["formal", "soak HOURS=1"]
    assert verify("HOURS=1")[1] == []
    assert verify("HOURS=10")[1] == ["soak HOURS=10"]
    assert verify("HOURS=2.5")[1] == []
    assert verify("HOURS=long")[1] == ["soak HOURS=long"]


def test_fresh_begins_anew_and_a_dry_run_lists(verify, tmp_path):
    assert verify()[0] == 1
    _, steps, plan = verify("--dry-run", "HOURS=2")
    assert (steps, plan) == (
        [],
        ["about    2 h 0 min  soak", "1 of 2 done, 1 to do, 1 at a time: about 2 h 0 min"],
    )
    assert verify("--dry-run", "--fresh")[2][1].startswith("2 to do, 1 at a time")
    assert verify()[1] == ["soak"]
    assert verify("--fresh")[1] == ["formal anew", "soak anew"]
    assert verify()[1] == ["soak"]
    rows = json.loads((tmp_path / "docs" / "evidence.json").read_text())
    assert {name: row["passed"] for name, row in rows.items()} == {
        "step formal": True, "step soak": False,
    }  # fmt: skip


def test_an_interrupted_run_that_began_anew_goes_on_so(verify, tmp_path):
    (tmp_path / "fails").unlink()
    verify()
    page = tmp_path / "docs" / "evidence.json"
    make = tmp_path / "build" / "make"
    make.write_text(
        MAKE.replace(
            "step, *values",
            "if sys.argv[1] == 'verify-soak':\n    os.kill(os.getppid(), 9)\nstep, *values",
        )
    )
    assert verify("--fresh")[0] == 1
    assert json.loads(page.read_text())["step soak"]["digest"] == ""
    make.write_text(MAKE)
    assert verify() == (0, ["soak anew"], PASSED)


def test_a_step_whose_code_changes_meanwhile_fails(verify, tmp_path):
    (tmp_path / "fails").unlink()
    (tmp_path / "changes").touch()
    status, steps, told = verify()
    assert (status, steps) == (1, ["formal", "soak"])
    since = "FAILED: it has passed, and its code has changed since"
    assert told == [f"verify: formal {since}", "verify: soak passed"]
