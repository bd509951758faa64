"""The runner: every task has one outcome, and what is done stays done."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest
from rich.console import Console

from compare_fakes import Job
from mxdot.compare.studies import processes
from mxdot.util import progress
from mxdot.util.files import write_file
from mxdot.util.jobs import Backend, DryRun, execute, results, run, run_rows
from mxdot.util.progress import Remaining, display, duration, show_plan
from mxdot.util.runs import scratch
from mxdot.util.store import Outcome, Store
from processes import alive, comes, ended


class Log:
    """An observer that remembers."""

    def __init__(self):
        self.kept, self.ended = 0, []

    def begin(self, tasks, kept):
        self.kept = kept

    def start(self, task):
        pass

    def end(self, task, outcome):
        self.ended.append(task.name)


def runs(log: Path) -> Counter[str]:
    """How often each job was run."""
    return Counter(line.split()[0] for line in log.read_text().splitlines())


@pytest.fixture
def log(tmp_path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "results")


def test_no_future_is_held_when_its_end_is_told(log, store):
    """A cluster would make its result again, should its worker die."""
    made = []

    class Remembered(ThreadPoolExecutor):
        def submit(self, *arguments, **keywords):
            future = super().submit(*arguments, **keywords)
            made.append(weakref.ref(future))
            return future

    class Watch(Log):
        def end(self, task, outcome):
            super().end(task, outcome)
            held.append(sum(ref() is not None for ref in made))

    held: list[int] = []
    jobs = [Job(f"n{i}", log) for i in range(4)]
    run(jobs, store, Backend(lambda count: Remembered(1), 1), Watch())
    assert held == [0, 0, 0, 0]


def test_all_tasks_run_once_the_longest_first(log, store):
    jobs = [Job(f"n{i}", log, weight=i) for i in range(5)]
    observer = Log()
    outcomes = run([*jobs, jobs[0]], store, processes(1), observer)
    assert {key: outcome.value for key, outcome in outcomes.items()} == {
        job.key: {"name": job.name} for job in jobs
    }
    assert observer.ended == ["n4", "n3", "n2", "n1", "n0"]
    assert set(runs(log).values()) == {1}


def test_rows_share_equal_tasks_and_may_need_none(log, tmp_path):
    one, two = Job("one", log), Job("two", log)
    here = Backend(lambda count: ThreadPoolExecutor(1), 1)
    observer = Log()
    rows = run_rows([(two, None), (one, two)], tmp_path, here, observer, order=lambda t: t.label)
    assert [[o and o.key for o in row] for row in rows] == [
        ["job-two", None],
        ["job-one", "job-two"],
    ]
    assert observer.ended == ["one", "two"]
    assert runs(log) == {"one": 1, "two": 1}
    assert Store(tmp_path / "results").get("job-two") == rows[0][0]


def test_a_second_run_does_what_is_left(log, store):
    run([Job("a", log), Job("b", log)], store, processes(2), Log())
    observer = Log()
    run([Job("a", log), Job("b", log), Job("c", log)], store, processes(2), observer)
    assert (observer.kept, observer.ended) == (2, ["c"])
    assert runs(log) == {"a": 1, "b": 1, "c": 1}


def test_a_failing_task_does_not_stop_the_others_and_is_tried_again(log, store):
    jobs = [Job("bad", log, fault="raise"), Job("good", log)]
    for _ in range(2):
        outcomes = run(jobs, store, processes(2), Log())
        assert outcomes["job-bad"].error == "this point\\x1b[2J"
        assert outcomes["job-good"].ok
    assert runs(log) == {"bad": 2, "good": 1}


def test_a_task_whose_process_dies_does_not_take_the_others_along(log, store):
    jobs = [Job("dies", log, 0.3, "die"), *(Job(f"n{i}", log, 0.1) for i in range(6))]
    observer = Log()
    outcomes = run(jobs, store, processes(2), observer)
    assert outcomes["job-dies"].error == "its process ended with status 9"
    assert sorted(observer.ended) == sorted(job.name for job in jobs)
    assert all(outcome.ok for key, outcome in outcomes.items() if key != "job-dies")


CHANGED = "inputs changed during the run"
OTHER = "code, tools or files differ from those at the start of the run"


@dataclass(frozen=True)
class Reader:
    """A task whose key and value are the text of a file. during: done to the file at the end."""

    file: Path
    during: Callable[[Path], object] = Path.exists
    label = "reader"
    weight = 1.0

    @property
    def key(self) -> str:
        return f"reader-{self.file.read_text()}"

    def run(self) -> str:
        text = self.file.read_text()
        self.during(self.file)
        return text


def _edit(file: Path) -> None:
    file.write_text("new")


@pytest.mark.parametrize(("during", "error"), [(_edit, CHANGED), (Path.unlink, "No such file")])
def test_a_file_that_changes_during_a_run_fails_its_task(tmp_path, during, error):
    file = tmp_path / "file"
    file.write_text("old")
    one = Backend(lambda count: ThreadPoolExecutor(1), 1)
    with display(Console(quiet=True)) as observer:
        ((outcome,),) = run_rows([(Reader(file, during),)], tmp_path, one, observer)
    assert outcome is not None
    assert outcome.key == "reader-old"
    assert error in (outcome.error or "")
    assert [path.stem for path in (tmp_path / "results").iterdir()] == ["reader-old"]


def test_a_file_that_changes_before_its_task_fails_it(tmp_path, store):
    file = tmp_path / "file"
    file.write_text("old")

    class Late(ThreadPoolExecutor):
        def submit(self, *arguments, **keywords):
            file.write_text("new")
            return super().submit(*arguments, **keywords)

    class Silent(Log):
        def end(self, task, outcome):
            pass

    outcomes = run([Reader(file)], store, Backend(lambda count: Late(1), 1), Silent())
    assert {key: outcome.error for key, outcome in outcomes.items()} == {"reader-old": OTHER}


def test_a_key_that_cannot_be_made_is_an_error(tmp_path):
    assert "No such file" in (execute(Reader(tmp_path / "file")).error or "")


SCRIPT = """
import sys
from pathlib import Path
from compare_fakes import Job
from mxdot.compare.studies import processes
from mxdot.util.jobs import run
from mxdot.util.store import Store
from test_jobs import Log

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    jobs = [Job(f"n{i}", folder / "log", 0.4) for i in range(8)]
    run(jobs, Store(folder / "results"), processes(2), Log())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.slow_except(2)
def test_nothing_is_lost_when_the_run_is_killed(tmp_path, log, store, number):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    places = [str(Path(__file__).parent), *filter(None, sys.path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    process = subprocess.Popen(
        [sys.executable, script, tmp_path],
        env=environment,
        stderr=subprocess.DEVNULL,
        # A background job ignores SIGINT, and so do its children unless told otherwise.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert comes(lambda: len(_done(store)) >= 3)
    process.send_signal(number)
    assert process.wait(timeout=20) != 0
    workers = {int(line.split()[1]) for line in log.read_text().splitlines()}
    assert ended(workers)

    done = _done(store)
    assert 3 <= len(done) < 8
    before = runs(log)
    observer = Log()
    outcomes = run([Job(f"n{i}", log) for i in range(8)], store, processes(2), observer)
    assert all(outcome.ok for outcome in outcomes.values())
    assert sorted(observer.ended) == sorted({f"n{i}" for i in range(8)} - done)
    assert all(runs(log)[name] == before[name] for name in done)


IMPORTING = """
import sys
from mxdot.util.workers import processes

if __name__ == "__main__":
    with processes(1, sys.argv[1:]).open(1) as executor:
        executor.submit(print).result()
else:
    import slow
"""
SLOW = "import pathlib, time; pathlib.Path('importing').touch(); time.sleep(3)"


@pytest.mark.parametrize("preload", [(), ("slow",)])
def test_an_interrupt_while_workers_import_is_told_once(tmp_path, preload):
    (tmp_path / "script.py").write_text(IMPORTING)
    (tmp_path / "slow.py").write_text(SLOW)
    places = [str(tmp_path), *filter(None, sys.path)]
    process = subprocess.Popen(
        [sys.executable, "script.py", *preload],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert comes((tmp_path / "importing").exists)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=20)
    assert errors.count("Traceback") == 1
    assert "slow" not in errors


def test_workers_leave_no_temporary_files():
    with processes(1).open(1) as executor:
        made = Path(executor.submit(tempfile.mkdtemp).result())
        assert made.is_dir()
    assert not made.exists()


HOLDER = """
import sys, time
from mxdot.util.workers import processes
from mxdot.util.runs import scratch

if __name__ == "__main__":
    with scratch("synth") as directory, processes(1).open(1) as executor:
        executor.submit(time.sleep, 0).result()
        print(directory, flush=True)
        time.sleep(60)
"""


def test_directories_of_killed_runs_go_away_with_the_next_one(tmp_path, monkeypatch):
    script, folder = tmp_path / "script.py", tmp_path / "tmp"
    script.write_text(HOLDER)
    folder.mkdir()
    (folder / "mxdot-synth-of-another").mkdir()  # has no lock
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    command = [sys.executable, script]
    environment = os.environ | {"TMPDIR": str(folder)}
    with ExitStack() as stack:
        pair = [
            stack.enter_context(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE))
            for _ in range(2)
        ]
        for process in pair:
            stack.callback(process.kill)
        killed, alive = (Path(p.stdout.readline().decode().strip()) for p in pair if p.stdout)
        pair[0].kill()
        pair[0].wait()
        assert killed.is_dir()
        assert len(list(folder.iterdir())) == 5  # two of each process
        with scratch("synth") as own:
            left = set(folder.iterdir())
        assert killed not in left
        assert {alive, own, folder / "mxdot-synth-of-another"} < left
        assert len(left) == 4
    assert not own.exists()


def test_a_run_killed_before_its_lock_leaves_no_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for process in (ended.pid, os.getpid()):
        (tmp_path / f"mxdot-run-{process}-7").mkdir()
    with scratch("run"):
        left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"mxdot-run-{os.getpid()}-{number}" for number in (0, 7)}


def _done(store: Store) -> set[str]:
    return {path.stem.removeprefix("job-") for path in store.directory.glob("job-*.json")}


@pytest.mark.parametrize("text", ["", "{", '{"key": "job-b", "label": ""}', "[]", '{"speed": 3}'])
def test_a_damaged_result_counts_as_none(store, text):
    write_file(store.path("job-a"), text)
    assert store.get("job-a") is None


def test_the_store_gives_back_what_it_was_given(store):
    outcome = Outcome("job-a", "a", {"sqnr": float("inf"), "list": [1, None]}, None, 1.5, 2.0)
    store.put(outcome)
    assert store.get("job-a") == outcome
    assert [path.name for path in store.directory.iterdir()] == ["job-a.json"]
    with pytest.raises(ValueError, match="key must be lower-case letters"):
        store.path("../a")


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write_file(tmp_path / "taken", "text")
    assert caught.value.filename == str(tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_remaining_time_follows_the_weights(log, monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    jobs = [Job("a", log, weight=30), Job("b", log, weight=10)]
    remaining = Remaining(jobs)
    assert remaining.text() == ""
    now = 130.0
    remaining.end(jobs[0])
    assert remaining.text() == "about 10 s left"
    remaining.end(jobs[1])
    assert remaining.text() == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(3.2, "3 s"), (89, "89 s"), (100, "2 min"), (6000, "1 h 40 min")]
)
def test_duration(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize("terminal", [True, False])
def test_display(log, store, terminal, capsys):
    run([Job("kept", log)], store, processes(1), Log())
    console = Console(force_terminal=terminal, width=120)
    jobs = [Job("kept", log), Job("bad", log, fault="raise"), Job("good", log, weight=0.5)]
    with display(console) as observer:
        run(jobs, store, processes(1), observer)
    shown = capsys.readouterr().out
    assert "1 of 3 results are there already" in shown
    assert "FAILED bad: this point\\x1b[2J" in shown
    if not terminal:
        assert "[1/2] FAILED" in shown
        assert "[2/2] done   good" in shown


def test_without_a_terminal_a_line_comes_at_once_and_then_regularly(
    log, store, monkeypatch, capsys
):
    monkeypatch.setattr(progress, "SILENCE", 0.3)
    with display(Console(force_terminal=False, width=120)) as observer:
        run([Job("long", log, 1.5), Job("short", log)], store, processes(1), observer)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[0/2] measuring"
    assert lines.count("[0/2] still at long") + lines.count("[0/2] still at short") >= 2
    assert lines[-1].startswith("[2/2] done ")


def test_a_dry_run_lists_what_is_left(log, store, capsys):
    run([Job("kept", log)], store, processes(1), Log())
    jobs = [Job("kept", log), Job("short", log, weight=60), Job("long", log, weight=7200)]
    with pytest.raises(DryRun) as plan:
        run(jobs, store, replace(processes(2), only_lists=True), Log())
    show_plan(Console(width=40), plan.value)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines[:-1]] == ["long", "short"]
    assert lines[-1] == "1 of 3 done, 2 to do, 2 at a time: about 2 h 0 min"
    assert runs(log) == {"kept": 1}
    with pytest.raises(DryRun) as plan:
        run(jobs, store, replace(processes(2), only_lists=True), Log(), then="more")
    show_plan(Console(width=80), plan.value)
    assert capsys.readouterr().out.endswith("about 2 h 0 min\nthen more\n")


def test_a_dry_run_goes_on_to_what_follows(log, store):
    """Where all tasks of one stage are kept, the tasks that depend on them are listed."""
    jobs, lists = [Job("kept", log)], replace(processes(1), only_lists=True)
    kept = run(jobs, store, processes(1), Log())
    assert run(jobs, store, lists, Log(), then="more") == kept
    with pytest.raises(DryRun):
        run(jobs, store, lists, Log())


def test_tasks_are_pulled_after_the_outcomes_before_them(log):
    """An endless source that looks at outcomes, as a soak's does."""
    ended: list[str] = []

    def source():
        for number in count():
            assert len(ended) >= number - 1
            yield Job(f"n{number}", log)

    with closing(results(source(), processes(2))) as outcomes:
        for task, outcome in outcomes:
            assert outcome.ok
            ended.append(task.name)
            if len(ended) == 6:
                break
    assert len(set(ended)) == 6
    assert set(runs(log).values()) == {1}


@pytest.mark.parametrize("preload", [(), ("mxdot.util.jobs",)])
def test_a_new_process_for_each_task(log, preload):
    jobs = [Job(f"n{number}", log) for number in range(4)]
    assert all(outcome.ok for _, outcome in results(jobs, processes(2, preload, fresh=True)))
    workers = {line.split()[1] for line in log.read_text().splitlines()}
    assert len(workers) == 4
    assert not any(alive(int(worker)) for worker in workers)


def test_outcomes_are_plain_json(log, store):
    run([Job("a", log)], store, processes(1), Log())
    content = json.loads(store.path("job-a").read_text())
    assert content["value"] == {"name": "a"}
    assert content["finished"] > 1.6e9
