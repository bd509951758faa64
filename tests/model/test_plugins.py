"""Modules of users: the files that results depend on."""

import sys

from mxdot.model import plugins


def test_files_of_plugins(tmp_path, monkeypatch):
    """All modules in a plugin's folder; a folder without `__init__.py` has no file of its own."""
    (tmp_path / "plain_folder").mkdir()
    for name in ("mine.py", "helper.py", "plain_folder/part.py"):
        (tmp_path / name).touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(plugins.VARIABLE, "mine, plain_folder")
    assert plugins.plugin_files() == [tmp_path / "helper.py", tmp_path / "mine.py"]
    monkeypatch.setitem(sys.modules, "plain_folder", None)  # restored after the test
    monkeypatch.delitem(sys.modules, "plain_folder")
    monkeypatch.setenv(plugins.VARIABLE, "plain_folder.part")
    assert plugins.plugin_files() == [tmp_path / "plain_folder" / "part.py"]
