"""Containers are tensors to PyTorch: moved, copied, cut, saved and compiled, and nothing else."""

import copy
import io
from dataclasses import replace

import pytest
import torch
from torch import nn

from containers import CONTAINERS, assert_same, contained, every_container
from devices import BYTES, on_devices
from mxdot.gpu import MXTensor, PackedTensor, Regrouped, mx_matmul, quantize, schemes
from mxdot.gpu.names import format_name, named_format
from mxdot.gpu.tensors.container import restored
from mxdot.gpu.tensors.packed import pack_codes
from mxdot.model.formats import FORMATS, FloatFormat, IntegerFormat
from mxdot.model.formats.codes import Specials
from mxdot.model.schemes import SCHEMES


@on_devices
@every_container
def test_moved_and_copied(make, device):
    x = contained(make, device)
    assert (x.dtype, x.device.type) == (torch.float32, device)
    for other in (
        *(x.detach(), x.clone(), x.to("cpu"), x.to(device), x.view(x.shape)),
        *(copy.deepcopy(x), nn.Parameter(x, requires_grad=False), x.to(device, copy=True)),
    ):
        assert_same(other.to(device), x)
    changed = x.clone()
    changed.copy_(contained(lambda y: make(y + 1), device))
    assert not torch.equal(changed.dequantize(), x.dequantize())
    assert_same(changed, contained(lambda y: make(y + 1), device))


@every_container
def test_cut_at_whole_groups(make):
    x = contained(make)
    values = x.dequantize()
    for at in (x[:128], x[128:], *x.split(128), *x.chunk(2), x.narrow(0, 128, 128)):
        assert at.shape == (128, 256)
    assert torch.equal(x[128:].dequantize(), values[128:])
    assert torch.equal(x.chunk(2)[0].dequantize(), values[:128])
    if isinstance(x, Regrouped):
        return
    for part, columns in ((x[:, 128:], slice(128, 256)), (x[:, :128], slice(128))):
        assert torch.equal(part.dequantize(), values[:, columns])
    if not isinstance(x, MXTensor | schemes.ScaledTensor):
        return
    for turned in (x.t(), x.T, x.transpose(0, 1)):
        assert torch.equal(turned.dequantize(), values.T)
    assert torch.equal(x.T.T.dequantize(), values)


def test_padding_stays_at_the_end():
    x = quantize(torch.randn(4, 72), "e4m3", pad=True)
    assert (x[:, :64].padding, x[:, 64:].padding, x[2:].padding) == (0, 24, 24)


@every_container
def test_saved_and_loaded_with_weights_only(make):
    x = contained(make)
    file = io.BytesIO()
    torch.save({"x": x, "parameter": nn.Parameter(x, requires_grad=False)}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    assert_same(loaded["x"], x)
    assert isinstance(loaded["parameter"], nn.Parameter)
    assert not isinstance(loaded["x"], nn.Parameter)


@pytest.mark.parametrize("name", ["mx, e2m1", "scaled", "two levels"])
def test_codes_of_a_file_are_checked(name):
    x, file = contained(CONTAINERS[name]), io.BytesIO()
    x.named_parts()["codes"].fill_(100)
    torch.save(x, file)
    file.seek(0)
    with pytest.raises(ValueError, match=r"^codes of "):
        torch.load(file, weights_only=True)


def test_the_text_of_a_format_is_all_of_it():
    for fmt in (
        FloatFormat("own:name", 4, 2, Specials.NAN_ONLY),
        FloatFormat("float16", 5, 10, Specials.IEEE, True),
        FloatFormat("fnuz", 3, 2, Specials.FNUZ),
        *FORMATS.values(),
        IntegerFormat("a:b:c", 6, -31, 31, 2, False, True),
    ):
        assert named_format(format_name(fmt)) == fmt


def test_a_scheme_without_a_name_is_not_saved():
    """A file keeps the name only."""
    own = schemes.quantize(torch.randn(2, 32), replace(SCHEMES["int4_g32"], name="own"))
    message = r"^a ScaledTensor to be copied or saved must have a scheme with a name, not Scheme\(n"
    with pytest.raises(ValueError, match=message):
        torch.save(own, io.BytesIO())


@pytest.mark.parametrize("name", BYTES)
def test_every_code_and_length_comes_back_from_bytes(name):
    """Codes of formats that fill a byte stay as they are."""
    fmt = FORMATS[name]
    for length in range(1, 9):
        codes = torch.arange(2**fmt.bits * length).remainder(2**fmt.bits).to(torch.uint8)
        x = MXTensor(codes.reshape(-1, length), torch.zeros(2**fmt.bits, 1).byte(), name, length)
        dense = pack_codes(x)
        assert isinstance(dense, PackedTensor) == (fmt.bits < 8)
        if isinstance(dense, PackedTensor):
            assert dense.packed.shape == (2**fmt.bits, -(-length * fmt.bits // 8))
            x, back = x.named_parts(), dense.unpack().named_parts()
            assert all(torch.equal(back[part], x[part]) for part in x)


REFUSED = {
    "+": (lambda x: x + 1, "has no operator aten.add.Tensor: it holds codes, whose values "),
    "@": (lambda x: x @ torch.ones(256, 2), "has no operator aten.mm.default: it holds codes, "),
    "sum": (lambda x: x.sum(), "has no operator aten.sum.default: it holds codes, "),
    "parts": (lambda x: x.new_zeros(96, 256), "must be cut into equal parts of its rows, not"),
    "view": (lambda x: x.view(2, -1), "has no view of another shape than (256, 256)"),
    "memory": (
        lambda x: x.contiguous(memory_format=torch.channels_last),
        "memory_format of MXTensor must be contiguous_format, not channels_last",
    ),
    "cast": (lambda x: x.to(torch.bfloat16), "must be float32, not bfloat16"),
    "cut": (lambda x: x[:, 16:32], "must be of whole groups of 32, not 16 to 32"),
    "bytes": (
        lambda x: pack_codes(quantize(x.dequantize(), "e2m3", block_size=2))[:, 2:4],
        "a slice along axis 1 must be of whole bytes of 6-bit codes, not 2 to 4",
    ),
    "transpose": (
        lambda x: pack_codes(quantize(x.dequantize(), "e2m1")).t(),
        "PackedTensor has no transpose",
    ),
    "step": (lambda x: x[::2], "step of a slice of MXTensor must be 1, not 2"),
    "copy": (lambda x: x.copy_(torch.ones(256, 256)), "takes a copy of its like only, not of "),
    "data": (
        lambda x: setattr(x, "data", torch.ones(256, 256)),
        "takes a copy of its like only, not of Tensor of (256, 256)",
    ),
    "row": (lambda x: x[0], "has no operator aten.select.int"),
}


@pytest.mark.parametrize(("work", "message"), REFUSED.values(), ids=REFUSED)
def test_everything_else_is_refused_in_one_line(work, message):
    with pytest.raises((TypeError, ValueError, NotImplementedError)) as error:
        work(contained(CONTAINERS["mx"]))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@every_container
def test_data_that_is_assigned_is_taken(make):
    x, y = contained(make), contained(lambda x: make(x + 1))
    parameter = nn.Parameter(x, requires_grad=False)
    parameter.data = y
    assert_same(parameter.data, y)
    assert type(parameter.data) is type(y)


# What a file may say of packed codes: parts, facts or shape of an e2m1 matrix (4, 64), changed.
FORGED = {
    "dtype": (lambda p, f, s: ({**p, "packed": p["packed"].int()}, f, s), "must have dtype uint8"),
    "bytes": (
        lambda p, f, s: ({**p, "packed": p["packed"][:, :-1]}, f, s),
        "packed must have shape (4, 32) for 4 x 64 codes of 4 bits, not (4, 31)",
    ),
    "rows": (lambda p, f, s: (p, f, (5, 64)), "packed must have shape (5, 32) for 5 x 64 codes"),
    "columns": (lambda p, f, s: (p, f, (4, 32)), "packed must have shape (4, 16) for 4 x 32"),
    "within a byte": (lambda p, f, s: (p, f, (4, 63)), "axis -1 "),
    "axes": (lambda p, f, s: (p, f, (4, 64, 1)), "codes must be a matrix, not of shape (4, 64, 1)"),
    "kind": (
        lambda p, f, s: (p, ("Flat", *f[1:]), s),
        "kind of codes must be one of MXTensor, ScaledTensor, not 'Flat'",
    ),
    "unknown kind": (lambda p, f, s: (p, ("Other", *f[1:]), s), "kind of codes must be one of"),
}


@pytest.mark.parametrize(("change", "message"), FORGED.values(), ids=FORGED)
def test_packed_codes_of_files_are_checked(change, message):
    x = pack_codes(quantize(torch.randn(4, 64), "e2m1"))
    parts, facts, shape = change(x.named_parts(), x.facts(), tuple(x.shape))
    with pytest.raises((TypeError, ValueError)) as error:
        restored("PackedTensor", parts, facts, shape, None)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


class Product(nn.Module):
    """By a weight that is a container."""

    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x):
        return x @ self.weight.dequantize().T


@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # PyTorch's own
@every_container
def test_a_parameter_in_a_compiled_and_an_exported_network(make):
    net, x = Product(contained(make)), torch.randn(3, 256)
    want = net(x)
    torch.compiler.reset()
    assert torch.equal(torch.compile(net, fullgraph=True, backend="aot_eager")(x), want)
    assert torch.equal(torch.export.export(net, (x,)).module()(x), want)
    assert_same(net.state_dict()["weight"], net.weight.detach())
    other = Product(contained(lambda y: make(y + 1)))
    other.load_state_dict(net.state_dict())
    assert torch.equal(other(x), want)


class OwnProduct(Product):
    """By codes of the input, made in the graph, of the weight's kind."""

    def __init__(self, weight, make, multiply):
        super().__init__(weight)
        self.make, self.multiply = make, multiply

    def forward(self, x):
        return self.multiply(self.make(x), self.weight)


@pytest.mark.parametrize(
    ("make", "multiply"),
    [
        (CONTAINERS["mx"], mx_matmul),
        (CONTAINERS["scaled"], lambda a, b: schemes.matmul(a, b, "exact")),
        (CONTAINERS["zero points"], schemes.int8_matmul),
    ],
    ids=["mx", "scaled", "int8"],
)
def test_a_network_of_ones_own_is_exported(make, multiply):
    net, x = OwnProduct(contained(make), make, multiply), torch.randn(3, 256)
    exported = torch.export.export(net, (x,)).module()
    for given in (x, torch.randn(3, 256)):
        assert torch.equal(exported(given), net(given))
