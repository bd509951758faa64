"""The command that measures networks: every case runs, and its bytes are those of the formats."""

import json

import pytest
import torch
from torch import nn

from mxdot.nn import Recipe, bench_parallel
from mxdot.nn import bench as networks

SMALL = ("--device", "cpu", "--eager", "--width", "128", "--hidden", "256", "--tokens", "128")


def test_every_line_of_the_tables(capsys):
    networks.main(SMALL)
    printed = capsys.readouterr().out
    cases = len(networks.FROZEN) + len(networks.FEW) * len(networks.FEW_ROWS)
    cases += len(networks.TRAINED) + len(networks.FEW_ROWS) + 2  # bfloat16, once a table
    rows = [line for line in printed.splitlines() if ": " in line]
    assert len(rows) == cases
    for name in (*networks.FROZEN, *networks.FEW, *networks.TRAINED):
        assert any(f": {name} |" in row for row in rows)
    assert all(0.97 <= float(row.split("|")[-2]) <= 1.0001 for row in rows)
    held = {row.split("|")[1].partition(": ")[2].strip(): row.split("|")[5] for row in rows}
    assert held["int4_g128 weights"].split()[0] == "0.26"
    for call in ("quantize", "mx_matmul", "matmul hopper"):
        assert f"| {call}, 4 x " in printed


def test_one_part(capsys):
    networks.main((*SMALL, "--only", "few"))
    printed = capsys.readouterr().out
    assert "16 rows" in printed
    assert "step" not in printed


def test_every_recipe_with_few_and_many_rows(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(networks, "ROWS", (1, 16))
    file = tmp_path / "rows.json"
    networks.main((*SMALL, "--only", "rows", "--json", str(file)))
    kept = json.loads(file.read_text())
    assert (kept["width"], kept["hidden"]) == (128, 256)
    names = dict.fromkeys(each["recipe"] for each in kept["rows"])
    assert [*names] == ["bfloat16", *networks.EVERY]
    assert {(each["recipe"], each["rows"]) for each in kept["rows"]} == {
        (name, rows) for name in names for rows in (1, 16)
    }
    assert all(each["is_right"] and each["bytes"] > 0 for each in kept["rows"])
    assert len([line for line in capsys.readouterr().out.splitlines() if ": " in line]) == len(
        kept["rows"]
    )


def test_a_run_of_rows_ends_in_time_and_says_what_is_wrong(capsys, tmp_path, monkeypatch):
    w8a8, broken = networks.FROZEN["w8a8"][0], Recipe("e2m1")
    monkeypatch.setattr(networks, "EVERY", {"broken": (broken, 0.9), "w8a8": (w8a8, 1.1)})

    def run(sizes, made, *others, whole=networks._frozen_rows):
        if getattr(made[0], "recipe", None) == broken:
            raise RuntimeError("no luck")
        return whole(sizes, made, *others)

    monkeypatch.setattr(networks, "_frozen_rows", run)
    file = tmp_path / "rows.json"
    ends = "errors, .*: broken of 1 rows, broken of 16 rows, w8a8 of 1 rows, w8a8 of 16 rows$"
    with pytest.raises(SystemExit, match=ends):
        networks.main((*SMALL, "--only", "rows", "--json", str(file)))
    kept = json.loads(file.read_text())["rows"]
    assert len(kept) == 6
    assert kept[2]["error"] == "RuntimeError: no luck"
    networks.main((*SMALL, "--only", "rows", "--seconds", "-1"))
    assert "Not begun after -1 s: bfloat16, broken, w8a8" in capsys.readouterr().out


def test_bytes_held():
    sizes = networks.Sizes(128, 256, 128, "cpu", False)
    made = networks.network(sizes)
    assert networks.held(made) == 2 * (2 * 128 * 256 + 128 + 256)
    again = networks.network(sizes)
    assert all(
        torch.equal(p, q) for p, q in zip(made.parameters(), again.parameters(), strict=True)
    )
    frozen = networks.freeze(networks.convert(made, Recipe()))
    assert networks.held(frozen) == (2 + 4) * 2 * 128 * 256 + 2 * (128 + 256)


def test_an_output_that_is_off_ends_the_run(capsys, monkeypatch):
    """After the others of its table."""
    recipe = networks.FROZEN["w8a8"][0]
    recipes = {"off": (recipe, 1.01), "w8a8": (recipe, 0.9)}
    monkeypatch.setattr(networks, "FROZEN", recipes)
    message = r"^frozen, 128 tokens, off: cosine 0.999\d is not at least 1.01$"
    with pytest.raises(SystemExit, match=message):
        networks.main((*SMALL, "--only", "frozen"))
    printed = capsys.readouterr().out
    assert all(f"frozen, 128 tokens: {name} |" in printed for name in recipes)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--tokens", "100", "--tokens must be a multiple of 128, not 100"),
        ("--width", "0", "--width must be a multiple of 128, not 0"),
        ("--only", "some", "invalid choice: 'some'"),
        ("--json", "x.json", "--json must stand with --only rows"),
    ],
)
def test_refusals(option, value, message, capsys):
    with pytest.raises(SystemExit):
        networks.main((*SMALL, option, value))
    assert message in capsys.readouterr().err


def test_a_file_that_cannot_be_written(capsys, tmp_path):
    with pytest.raises(SystemExit):
        networks.main((*SMALL, "--only", "rows", "--json", str(tmp_path / "none" / "x.json")))
    assert "--json must be a file in a directory that exists, not" in capsys.readouterr().err


def test_a_step_has_gradients():
    sizes = networks.Sizes(128, 128, 128, "cpu", False)
    made = networks.convert(networks.network(sizes), networks.TRAINED["mxfp8, float8"][0])
    x = torch.randn(128, 128, dtype=torch.bfloat16, requires_grad=True)
    networks._step(made, made, x)
    assert x.grad is not None
    assert all(p.grad is not None for p in made.parameters())
    assert isinstance(made, nn.Sequential)


@pytest.mark.filterwarnings("ignore")  # PyTorch's own
@pytest.mark.parametrize("mode", bench_parallel.MODES)
def test_training_over_ranks(mode, capsys, monkeypatch):
    """A group of one rank, as the launcher would make it."""
    for name, value in (
        ("TORCHELASTIC_RUN_ID", "none"),
        ("RANK", "0"),
        ("WORLD_SIZE", "1"),
        ("MASTER_ADDR", "127.0.0.1"),
        ("MASTER_PORT", "0"),
    ):
        monkeypatch.setenv(name, value)
    for module in (networks, bench_parallel):
        monkeypatch.setattr(module, "VOCABULARY", 64)
    kept = {name: bench_parallel.TRAINED[name] for name in ("bfloat16", "mxfp8")}
    monkeypatch.setattr(bench_parallel, "TRAINED", kept)
    sizes = ("--device", "cpu", "--width", "128", "--hidden", "128", "--tokens", "128")
    bench_parallel.main((*sizes, "--only", mode))
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines()[4:]]
    assert [row[1].strip() for row in rows] == [f"{mode}, bfloat16", f"{mode}, mxfp8"]
    losses = [float(row[5]) for row in rows]
    assert all(3.5 < loss < 5 for loss in losses)  # log 64 is 4.16
    assert abs(losses[0] - losses[1]) < 0.05


def test_tokens_are_whole_sequences_for_every_rank(capsys, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(SystemExit):
        bench_parallel.main(("--device", "cpu", "--tokens", "8192"))
    assert "--tokens of 3 ranks must be a multiple of 6144, not 8192" in capsys.readouterr().err


def test_training_is_started_by_a_launcher(capsys, monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    with pytest.raises(SystemExit):
        bench_parallel.main(("--device", "cpu"))
    assert "it must be started by torch.distributed.run" in capsys.readouterr().err
