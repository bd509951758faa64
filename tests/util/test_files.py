"""Files are whole or as they were, whoever is killed while it writes."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mxdot.util.files import replacing, write_file

KILLED = """
import os, signal, sys
from pathlib import Path
from mxdot.util.files import replacing
with replacing(Path(sys.argv[1])) as part:
    part.write_text("a longer half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_writer_leaves_goes_with_the_next_one(tmp_path):
    path = tmp_path / "result.json"
    write_file(path, "old")
    done = subprocess.run([sys.executable, "-c", KILLED, path])
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    assert len(names(tmp_path)) == 2
    write_file(path, "new")
    assert path.read_text() == "new"
    assert names(tmp_path) == ["result.json"]


def test_two_writers_at_once_have_a_file_each(tmp_path):
    path = tmp_path / "x"
    with replacing(path) as one, replacing(path) as two:
        assert one != two
        one.write_text("one")
        two.write_text("two")
    assert path.read_text() == "one"  # the last to end
    assert names(tmp_path) == ["x"]


def test_many_writers_leave_one_whole_file(tmp_path):
    path, texts = tmp_path / "x", [str(number) * 5000 for number in range(8)]

    def write(text):
        for _ in range(25):
            write_file(path, text)
            assert path.read_text() in texts

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in texts
    assert names(tmp_path) == ["x"]


def test_an_error_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "x"
    write_file(path, "old")

    def interrupted():
        with replacing(path) as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_a_new_file_has_the_mode_that_the_mask_leaves(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_file(tmp_path / "x", "text")
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("mode", [0o600, 0o755])
def test_a_file_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "x"
    path.write_text("old")
    path.chmod(mode)
    write_file(path, "new")
    assert path.stat().st_mode & 0o777 == mode


def test_a_device_without_room_is_named():
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_file(Path("/dev/full"), "text")


def test_a_link_in_the_way_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".x.0").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match=r"x"):
        write_file(tmp_path / "x", "text")
    assert (tmp_path / "mine").read_text() == "mine"
