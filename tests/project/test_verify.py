"""`make verify`: what has passed runs again when a file has changed, and not before."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "verify.py"
MAKE = f"""#!{sys.executable}
import sys
from pathlib import Path
with Path("build/ran").open("a") as file:
    print(*sys.argv[1:], file=file)
if Path("changes").exists():
    Path("hw/unit.py").write_text(sys.argv[1])
sys.exit(Path("fails").exists() and sys.argv[1] == "verify-b")
"""


@pytest.fixture
def verify(tmp_path):
    """Runs two steps in a folder that is no git repository, the second with `values`; exit status,
    steps that ran, verdicts."""
    (tmp_path / "build").mkdir()
    (tmp_path / "hw").mkdir()
    (tmp_path / "hw" / "unit.py").write_text("1")
    (tmp_path / "fails").touch()
    make = tmp_path / "build" / "make"
    make.write_text(MAKE)
    make.chmod(0o755)

    def verify(*values):
        ran = tmp_path / "build" / "ran"
        ran.unlink(missing_ok=True)
        command = [sys.executable, TOOL, make, "a", "b", *values]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        steps = ran.read_text().splitlines() if ran.exists() else []
        return done.returncode, steps, done.stdout.splitlines()[-2:]

    return verify


def test_what_has_passed_is_not_run_again(verify, tmp_path):
    """Until all have passed: then everything is."""
    failed = (1, ["verify-a", "verify-b"], ["verify: a passed", "verify: b FAILED: exit status 1"])
    assert verify() == failed
    (tmp_path / "build" / "report").write_text("new")
    (tmp_path / "hw" / "__pycache__").mkdir()
    (tmp_path / "hw" / "__pycache__" / "unit.pyc").write_text("new")
    assert verify() == (1, ["verify-b"], failed[2])


@pytest.mark.parametrize(
    "change",
    [
        lambda hw: (hw / "unit.py").write_text("2"),
        lambda hw: (hw / "new.py").touch(),
        lambda hw: (hw / "unit.py").rename(hw / "other.py"),
        lambda hw: (hw / "unit.py").unlink(),
    ],
)
def test_other_files_run_it_again(change, verify, tmp_path):
    assert verify()[0] == 1
    change(tmp_path / "hw")
    assert verify()[1] == ["verify-a", "verify-b"]


def test_other_values_run_it_again(verify, tmp_path):
    """Only the step with other values runs again."""
    (tmp_path / "build" / "make").write_text(MAKE.replace('"verify-b"', '"verify-a"'))
    assert verify("HOURS=1")[:2] == (1, ["verify-a", "verify-b HOURS=1"])
    assert verify("HOURS=1")[:2] == (1, ["verify-a"])
    assert verify("HOURS=10")[:2] == (1, ["verify-a", "verify-b HOURS=10"])
    assert verify()[:2] == (1, ["verify-a", "verify-b"])


def test_fresh_begins_anew_and_a_dry_run_lists(verify):
    assert verify()[0] == 1
    _, steps, plan = verify("--dry-run", "HOURS=2")
    assert (steps, plan) == (
        [],
        ["about    2 h 0 min  b", "1 of 2 done, 1 to do, 1 at a time: about 2 h 0 min"],
    )
    assert verify("--dry-run", "--fresh")[2][1].startswith("2 to do, 1 at a time")
    assert verify()[1] == ["verify-b"]
    assert verify("--fresh")[1] == ["verify-a", "verify-b"]


def test_all_begins_anew_after_all_has_passed(verify, tmp_path):
    (tmp_path / "fails").unlink()
    passed = (0, ["verify-a", "verify-b"], ["verify: a passed", "verify: b passed"])
    assert verify() == passed
    assert verify() == passed


def test_a_change_while_it_runs_counts_as_none_passed(verify, tmp_path):
    (tmp_path / "fails").unlink()
    (tmp_path / "changes").touch()
    status, steps, told = verify()
    assert (status, steps) == (1, ["verify-a", "verify-b"])
    since = "FAILED: it has passed, and files have changed since"
    assert told == [f"verify: a {since}", f"verify: b {since}"]
