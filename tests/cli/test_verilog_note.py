"""`mxdot verilog` says when stages buy no clock."""

import pytest

from mxdot.cli import main


@pytest.mark.parametrize(
    ("options", "note"),
    [
        (["--accumulator", "exact", "--stages", "4"], "4 stages are no faster than 2: the loop of"),
        (["--accumulator", "exact", "--stages", "2"], None),
        (["--accumulator", "fixed:32:-16", "--stages", "4"], None),
    ],
)
def test_idle_stages(options, note, tmp_path, capsys):
    assert main(["verilog", "--lanes", "4", *options, "-o", str(tmp_path / "dot.v")]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("\n") == 1
    if note is None:
        assert shown.err == ""
    else:
        assert shown.err.startswith(f"note: {note}")
        assert "--interleave" in shown.err
        assert shown.err.count("\n") == 1
