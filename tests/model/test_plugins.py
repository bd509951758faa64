"""Modules of users: the files that results depend on."""

import re
import sys

import pytest

from mxdot.model import plugins


def test_commands_to_paste_set_the_variable(monkeypatch):
    monkeypatch.delenv(plugins.VARIABLE, raising=False)
    assert plugins.assignment() == ""
    monkeypatch.setenv(plugins.VARIABLE, "mine, other")
    assert plugins.assignment() == f"{plugins.VARIABLE}='mine, other' "


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


def test_an_error_of_a_plugin_says_where(tmp_path, monkeypatch):
    broken = tmp_path / "broken_plugin.py"
    broken.write_text("x = 1\ny = x / 0\n")
    (tmp_path / "half_plugin.py").write_text("x = (\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name, error in (
        (
            "broken",
            f"ZeroDivisionError: division by zero ({tmp_path / 'broken_plugin.py'}, line 2)",
        ),
        ("half", "SyntaxError: '(' was never closed (half_plugin.py, line 1)"),
    ):
        monkeypatch.setenv(plugins.VARIABLE, f"{name}_plugin")
        message = f"{plugins.VARIABLE} names '{name}_plugin', which raises {error}"
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            plugins.load_plugins()
