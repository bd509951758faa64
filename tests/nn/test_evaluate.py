"""evaluate: errors by hand, layer by layer and of the whole."""

import copy
import math
import re

import pytest
import torch
from torch import nn

from mxdot.nn import MXLinear, Recipe, convert, evaluate, freeze
from mxdot.nn.evaluate import OutputErrors


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Dropout(0.5), nn.Linear(96, 32))


def pair(recipe):
    reference = network()
    return convert(copy.deepcopy(reference), recipe), reference


def batches():
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(rows, 64, generator=generator) for rows in (5, 1, 12)]


def test_errors_by_hand():
    errors = OutputErrors()
    errors.add(torch.tensor([3.0, 0.0]), torch.tensor([4.0, 0.0]))
    errors.add(torch.tensor([[0.0], [2.0]]), torch.tensor([[3.0], [0.0]]))
    assert errors.mse == (1 + 9 + 4) / 4
    assert errors.sqnr == pytest.approx(10 * math.log10(25 / 14))
    assert errors.cosine == pytest.approx(12 / math.sqrt(13 * 25))
    assert errors.relative == pytest.approx(3 / 2.5)
    nothing = OutputErrors()
    nothing.add(torch.zeros(3), torch.zeros(3))
    assert (nothing.cosine, nothing.mse, nothing.sqnr) == (1, 0, math.inf)
    lost = OutputErrors()
    lost.add(torch.ones(3), torch.zeros(3))
    assert (lost.cosine, lost.mse, lost.sqnr) == (0, 1, -math.inf)
    overflown = OutputErrors()
    overflown.add(torch.tensor([torch.inf, 1.0]), torch.ones(2))
    assert (overflown.mse, overflown.sqnr, overflown.relative) == (math.inf, -math.inf, math.inf)


@pytest.mark.parametrize("frozen", [False, True])
def test_layers_alone_within_and_the_whole(frozen):
    model, reference = pair(Recipe("e4m3", "e2m1"))
    if frozen:
        freeze(model, keep_weight=False)
    model.train()
    evaluation = evaluate(model, reference, batches())
    assert model.training
    assert model[2].training
    reference.eval()
    model.eval()
    first, second, within, whole = OutputErrors(), OutputErrors(), OutputErrors(), OutputErrors()
    with torch.no_grad():
        for x in batches():
            inside = nn.functional.gelu(reference[0](x))
            first.add(model[0](x), reference[0](x))
            second.add(model[3](inside), reference[3](inside))
            within.add(model(x), reference(x))
            whole.add(model(x), reference(x))
    one, two = evaluation.layers
    assert (one.name, one.alone, one.within) == ("0", first, first)
    assert (two.name, two.alone, two.within) == ("3", second, within)
    assert evaluation.whole == whole
    assert evaluation.values() == {"0": first.sqnr, "3": second.sqnr, "the whole model": whole.sqnr}
    assert not model[0]._forward_hooks


def test_no_error_without_formats():
    model, reference = pair(Recipe(None, None, None))
    evaluation = evaluate(model, reference, batches(), metric="mse")
    assert evaluation.values() == {"0": 0, "3": 0, "the whole model": 0}


def test_finer_formats_are_better():
    by_format = [evaluate(*pair(Recipe(f, f)), batches()).whole for f in ("int8", "e4m3", "e2m1")]
    assert sorted(by_format, key=lambda errors: -errors.sqnr) == by_format
    assert sorted(by_format, key=lambda errors: -errors.cosine) == by_format


def test_the_table():
    model, reference = pair(Recipe())
    header, rule, *rows = str(evaluate(model, reference, batches(), "cosine")).splitlines()
    assert header == "| layer | SQNR, dB | cosine | MSE | cosine in the model | kernel |"
    assert rule == "| --- | --- | --- | --- | --- | --- |"
    number = r"[\d.e-]+"
    line = rf"\| 0 \| \d\d\.\d \| 0\.99\d{{4}} \| {number} \| 0\.99\d{{4}} \| values \(torch\) \|"
    assert re.fullmatch(line, rows[0])
    assert rows[2].startswith("| the whole model | ")
    assert len(rows) == 3


class Returns(nn.Module):
    """A network that returns something else than a tensor."""

    def __init__(self, make):
        super().__init__()
        self.layer, self.make = nn.Linear(64, 8), make

    def forward(self, x, again=False):
        y = self.layer(input=x)
        return self.make(self.layer(y.repeat(1, 8)) if again else y)


@pytest.mark.parametrize("make", [lambda y: (None, y), lambda y: {"y": y}, lambda y: [y, 2 * y]])
def test_outputs_that_hold_tensors(make):
    reference = Returns(make)
    model = convert(copy.deepcopy(reference), Recipe("e2m1", "e2m1"))
    given = [{"x": x, "again": True} for x in batches()]
    evaluation = evaluate(model, reference, given)
    assert evaluation.whole.count == 18 * 8
    assert evaluation.layers[0].alone.count == 2 * 18 * 8


@pytest.mark.parametrize("change", ["relu", "residual"])
def test_networks_that_work_in_place(change):
    class Network(nn.Module):
        def __init__(self, in_place):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
            self.in_place = in_place

        def forward(self, x):
            y = self.first(x)
            if change == "relu":
                return self.second(nn.functional.relu(y, inplace=self.in_place))
            z = self.second(y)
            return y.add_(z) if self.in_place else y + z

    results = []
    for in_place in (False, True):
        reference = Network(in_place)
        model = convert(copy.deepcopy(reference), Recipe("e4m3", "e4m3"))
        results.append(evaluate(model, reference, batches()))
    assert results[0] == results[1]


@pytest.mark.parametrize("frozen", [False, True])
def test_a_network_with_autocast_inside(frozen):
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 32)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.layer(x)

    reference = Network()
    model = convert(copy.deepcopy(reference), Recipe("e4m3", "e4m3"))
    if frozen:
        freeze(model)
    evaluation = evaluate(model, reference, batches())
    assert 25 < evaluation.layers[0].alone.sqnr < 40


def refused(message, error: type[Exception] = ValueError):
    return pytest.raises(error, match=f"^{re.escape(message)}")


class Borrowed(nn.Module):
    """Multiplies by the weight of a layer that it does not call."""

    def __init__(self):
        super().__init__()
        self.read, self.called = nn.Linear(64, 64), nn.Linear(64, 32)

    def forward(self, x):
        return self.called(nn.functional.linear(x, self.read.weight))


def test_layers_that_are_never_called_are_named():
    reference = Borrowed()
    model = convert(copy.deepcopy(reference))
    with pytest.warns(UserWarning, match=r"leaves out layers that model never called: read; "):
        evaluation = evaluate(model, reference, batches())
    assert [layer.name for layer in evaluation.layers] == ["called"]
    assert "read" not in str(evaluation)


def test_refusals():
    model, reference = pair(Recipe())
    with refused("model must be a torch.nn.Module, not int", TypeError):
        evaluate(1, reference, batches())  # pyright: ignore[reportArgumentType]
    with refused("metric must be one of sqnr, cosine, mse, not 'psnr'"):
        evaluate(model, reference, batches(), "psnr")
    with refused("batches must be an iterable of batches, not Tensor", TypeError):
        evaluate(model, reference, batches()[0])
    with refused(
        "batches must hold tensors, tuples, lists or mappings that the model's", TypeError
    ):
        evaluate(model, reference, [1])
    with refused("batches must hold at least one batch with an output, not none"):
        evaluate(model, reference, [])
    with refused("model must have an MXLinear to evaluate, not none"):
        evaluate(reference, model, batches())
    with refused("reference must have the layers of model, not miss '3'"):
        evaluate(model, reference[:3], batches())
    with refused("reference must have layers of its own, not share '0', '3'"):
        evaluate(model, model, batches())
    with refused("outputs of model must be a tensor, or have one, not NoneType", TypeError):
        other = Returns(lambda y: None)
        evaluate(convert(copy.deepcopy(other)), other, batches())
    wide = nn.Sequential(MXLinear(64, 8))
    with refused("outputs of layer '0' must have the same shape, (5, 9), not (5, 8)"):
        evaluate(wide, nn.Sequential(nn.Linear(64, 9)), batches())
    twice, once = Returns(lambda y: y), Returns(lambda y: y)
    forward = lambda x: nn.functional.linear(x, once.layer.weight)  # noqa: E731
    once.forward = forward  # pyright: ignore[reportAttributeAccessIssue]
    with refused("model must call layer 'layer' as often as reference, 0 times, not 1"):
        evaluate(convert(twice), once, batches())
