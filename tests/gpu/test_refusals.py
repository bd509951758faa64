"""Wrong input is refused with one sentence that names it, before any work."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from mxdot import gpu, model
from mxdot.gpu import MXTensor, schemes
from mxdot.gpu.names import named_scheme
from mxdot.model import PRESETS, MXArray
from mxdot.model.accumulators import KINDS
from mxdot.model.formats import FORMATS, FloatFormat
from mxdot.model.schemes import SCHEMES
from small_tensors import CODES, SCALES, A, X, refused

META = A.to("meta")
KNOWN = [*(kind.syntax for kind in KINDS.values()), *PRESETS]


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"x": np.ones(32)}, TypeError, "x must be a torch.Tensor, not ndarray"),
        ({"x": X.to_sparse()}, TypeError, "x must be a dense tensor, not torch.sparse_coo"),
        ({"x": X.int()}, TypeError, "x must be float32, float16, bfloat16 or float64, not int32"),
        (
            {"x": torch.full((32,), 0.1, dtype=torch.float64)},
            ValueError,
            "x of dtype float64 must hold float32 values, not 0.1: to(torch.float32) rounds them",
        ),
        (
            {"x": torch.tensor(1.0)},
            ValueError,
            "an array in blocks must have at least one axis, not shape ()",
        ),
        (
            {"x": torch.ones(4, 60)},
            ValueError,
            (
                "axis -1 must be a multiple of block_size 32 long, not 60"
                " (pad=True of quantize pads with zeros)"
            ),
        ),
        (
            {"fmt": "e4m2"},
            ValueError,
            (
                "fmt must be one of e4m3, e5m2, e3m2, e2m3, e2m1, int8, int4, e4m3fnuz, e5m2fnuz, "
                "fp16, bf16, tf32, int5, int3, not 'e4m2'; nearest: e5m2, e4m3, e3m2"
            ),
        ),
        ({"block_size": 0}, ValueError, "block_size must be from 1 to 65536, not 0"),
        ({"block_size": 2.0}, TypeError, "block_size must be an integer from 1 to 65536, not 2.0"),
        ({"axis": 2}, ValueError, "axis must be from -2 to 1, not 2"),
        (
            {"scale_rule": "round"},
            ValueError,
            "scale_rule must be one of floor, ceil, even, twice, even1, not 'round'",
        ),
        (
            {"rounding": "up"},
            ValueError,
            "rounding must be one of nearest_even, toward_zero, stochastic, not 'up'",
        ),
        ({"nonfinite": "keep"}, ValueError, "nonfinite must be one of poison, element, not 'keep'"),
        ({"pad": 1}, TypeError, "pad must be True or False, not 1"),
        (
            {"rounding": "stochastic"},
            ValueError,
            (
                "rng must be a torch.Generator or uint32 words of shape (4, 64) "
                "for stochastic rounding, not None"
            ),
        ),
        (
            {"rounding": "stochastic", "rng": torch.zeros(4, 64, dtype=torch.int64)},
            ValueError,
            (
                "rng must be a torch.Generator or uint32 words of shape (4, 64) "
                "for stochastic rounding, not int64 (4, 64)"
            ),
        ),
        (
            {"rounding": "stochastic", "rng": torch.zeros(4, 64, dtype=torch.uint32).to("meta")},
            ValueError,
            "x and rng must be on one device, not cpu and meta",
        ),
        ({"executor": "cuda"}, ValueError, "executor must be one of triton, torch, not 'cuda'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_quantize(changed, error, message):
    arguments = {"x": X, "fmt": "e4m3"} | changed
    with refused(error, message):
        gpu.quantize(arguments.pop("x"), arguments.pop("fmt"), **arguments)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"codes": CODES.numpy()}, TypeError, "codes must be a torch.Tensor, not ndarray"),
        ({"codes": CODES.int()}, TypeError, "codes must have dtype uint8, not int32"),
        ({"scales": SCALES.float()}, TypeError, "scales must have dtype uint8, not float32"),
        ({"scales": SCALES[:, :1]}, ValueError, "scales must have shape (4, 2), not (4, 1)"),
        (
            {"scales": SCALES.to("meta")},
            ValueError,
            "codes and scales must be on one device, not cpu and meta",
        ),
        (
            {"codes": CODES + 16, "format": "e2m1"},
            ValueError,
            "codes of format e2m1 must be from 0 to 15, not 16",
        ),
        ({"format": "fp16"}, TypeError, "codes must have dtype uint16, not uint8"),
        ({"codes": CODES.to(torch.uint16)}, TypeError, "codes must have dtype uint8, not uint16"),
        (
            {"codes": (CODES.int() + 2**19).to(torch.uint32), "format": "tf32"},
            ValueError,
            "codes of format tf32 must be from 0 to 524287, not 524288",
        ),
        (
            {"block_size": 48},
            ValueError,
            (
                "axis -1 must be a multiple of block_size 48 long, not 64"
                " (pad=True of quantize pads with zeros)"
            ),
        ),
        ({"axis": -3}, ValueError, "axis must be from -2 to 1, not -3"),
        ({"padding": 32}, ValueError, "padding must be from 0 to 31, not 32"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mxtensor(changed, error, message):
    with refused(error, message):
        MXTensor(**({"codes": CODES, "scales": SCALES, "format": "e4m3"} | changed))


def other(**changed):
    return MXTensor(**({"codes": CODES, "scales": SCALES, "format": "e4m3"} | changed))


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"a": X}, TypeError, "a must be an MXTensor, not Tensor"),
        (
            {"b": MXArray(CODES.numpy(), SCALES.numpy(), "e4m3")},
            TypeError,
            "b must be an MXTensor, not MXArray",
        ),
        (
            {"b": other(scales=torch.zeros(4, 4, dtype=torch.uint8), block_size=16)},
            ValueError,
            "block_size of a and b must be equal, not 32 and 16",
        ),
        (
            {"b": other(codes=CODES[:, :32], scales=SCALES[:, :1])},
            ValueError,
            "a and b must have shapes (M, K) and (N, K), not (4, 64) and (4, 32)",
        ),
        (
            {"a": other(codes=CODES[None], scales=SCALES[None])},
            ValueError,
            "a and b must have shapes (M, K) and (N, K), not (1, 4, 64) and (4, 64)",
        ),
        (
            {"a": other(scales=torch.zeros(1, 64, dtype=torch.uint8), block_size=4, axis=0)},
            ValueError,
            "axis of a must be the last axis, not 0",
        ),
        ({"b": META}, ValueError, "a and b must be on one device, not cpu and meta"),
        (
            {"accumulator": "aligned"},
            ValueError,
            (
                f"accumulator must be one of {', '.join(KNOWN)}, or another of `mxdot machines`, "
                "not 'aligned'"
            ),
        ),
        (
            {"accumulator": "int32"},
            ValueError,
            "accumulator int32 takes integer formats only, not e4m3 x e4m3",
        ),
        ({"c": 0.0}, TypeError, "c must be a torch.Tensor, not float"),
        ({"c": torch.ones(3)}, ValueError, "c must broadcast to shape (4, 4), not (3,)"),
        (
            {"c": torch.ones(4, device="meta")},
            ValueError,
            "a and c must be on one device, not cpu and meta",
        ),
        (
            {"c": torch.ones(4, dtype=torch.int32)},
            TypeError,
            "c must be float32, float16, bfloat16 or float64, not int32",
        ),
        (
            {"c": torch.full((4,), 0.1, dtype=torch.float64)},
            ValueError,
            "c of dtype float64 must hold float32 values, not 0.1: to(torch.float32) rounds them",
        ),
        (
            {"out_dtype": torch.float64},
            ValueError,
            "out_dtype must be one of float32, bfloat16, float16, not float64",
        ),
        (
            {"out_dtype": "float32"},
            ValueError,
            "out_dtype must be one of float32, bfloat16, float16, not 'float32'",
        ),
        (
            {"out_dtype": []},
            ValueError,
            "out_dtype must be one of float32, bfloat16, float16, not []",
        ),
        (
            {"executor": "cuda"},
            ValueError,
            "executor must be one of triton, torch, silicon, not 'cuda'",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_matmul(changed, error, message):
    arguments = {"a": A, "b": A, "accumulator": "exact"} | changed
    with refused(error, message):
        gpu.matmul(**arguments)


def test_an_accumulator_of_ones_own():
    class Own(model.Exact):
        pass

    with refused(TypeError, "accumulator must be one of mxdot.model's, not Own"):
        gpu.matmul(A, A, Own())


def test_float8():
    known = "e4m3 or e5m2 or e4m3fnuz or e5m2fnuz"
    with refused(ValueError, f"format must be {known} to have a torch dtype, not int8"):
        other(format="int8").to_float8()
    elements, scales = A.to_float8()
    known = " or ".join(f"float8_{name}" for name in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz"))
    with refused(TypeError, f"elements must have dtype {known}, not uint8"):
        MXTensor.from_float8(CODES, scales)
    with refused(TypeError, "scales must have dtype float8_e8m0fnu, not uint8"):
        MXTensor.from_float8(elements, SCALES)


@pytest.mark.parametrize("count", [1, 3])
def test_the_words_of_both_axes(count):
    words = (torch.zeros(32, 64, dtype=torch.uint32),) * count
    message = f"rng must be a torch.Generator or the words of rows and columns, not {count} tensors"
    with refused(ValueError, message):
        gpu.quantize_both(torch.ones(32, 64), "e4m3", rounding="stochastic", rng=words)


def test_conversions():
    not_the_models: Any = A
    with refused(TypeError, "x must be an MXArray, not MXTensor"):
        MXTensor.from_model(not_the_models)
    with refused(TypeError, "dtype must be float32, float16, bfloat16 or float64, not int8"):
        A.dequantize(torch.int8)


def test_packing():
    with refused(TypeError, "codes must have dtype uint8, not float32"):
        gpu.pack(X, "e2m1")
    with refused(
        ValueError,
        (
            "codes of format e3m2 must have a last axis that is a multiple of 4 long to pack, "
            "not shape (4, 6)"
        ),
    ):
        gpu.pack(CODES[:, :6], "e3m2")
    with refused(
        ValueError,
        "packed e2m3 must have a last axis that is a multiple of 3 bytes long, not shape (4, 64)",
    ):
        gpu.unpack(CODES, "e2m3")


def test_tiles():
    with refused(ValueError, "scales must have shape (rows, blocks), not (4, 64, 1)"):
        gpu.tile_scales(CODES[..., None])
    with refused(ValueError, "tiled must have shape (1024,) for 4 x 5 scales, not (512,)"):
        gpu.untile_scales(torch.zeros(512, dtype=torch.uint8), 4, 5)
    with refused(ValueError, "rows must be at least 0, not -1"):
        gpu.untile_scales(torch.zeros(0, dtype=torch.uint8), -1, 5)


def test_files(tmp_path):
    from safetensors.torch import save_file

    path = tmp_path / "other.safetensors"
    save_file({"x": X}, path)
    with refused(
        ValueError,
        f"path must be a file written by mxdot.gpu.save, not '{path}': it has no 'mxdot'",
    ):
        gpu.load(path)
    with refused(TypeError, "tensors['x'] must be an MXTensor or a ScaledTensor, not Tensor"):
        gpu.save(path, {"x": X})
    save_file({"x.codes": CODES}, path, metadata={"mxdot": '{"x": {"scheme": {"name": "new"}}}'})
    with refused(
        ValueError,
        f"path must be a file written by mxdot.gpu.save, not '{path}': it has no 'elements'",
    ):
        gpu.load(path)


def test_a_scheme_that_this_process_does_not_know():
    scheme = "scheme must be a row of SCHEMES or made in this process, not 'new'"
    with refused(ValueError, scheme):
        named_scheme("new")


def test_files_of_formats_under_a_name_of_the_model(tmp_path):
    own = MXTensor(CODES, SCALES, FloatFormat("e4m3", 4, 2))
    message = (
        "tensors['x'] cannot be saved: format of the name e4m3 must be "
        f"{FORMATS['e4m3']!r}, not {own.format!r}"
    )
    with refused(ValueError, message):
        gpu.save(tmp_path / "x", {"x": own})
    of_own = schemes.quantize(X, replace(SCHEMES["mxfp8_e4m3"], elements=(own.format,)))
    with refused(ValueError, message):
        gpu.save(tmp_path / "x", {"x": of_own})
    several: Any = [A]
    message = "tensors must map names to MXTensors and ScaledTensors, not be a list"
    with refused(TypeError, message):
        gpu.save(tmp_path / "x", several)
    assert not list(tmp_path.iterdir())


def test_another_dtype():
    with refused(TypeError, "dtype of MXTensor must be float32, not bfloat16"):
        A.to(torch.bfloat16)


@pytest.mark.parametrize("quantizer", [model.quantize, model.schemes.quantize])
def test_the_model_names_the_package_of_tensors(quantizer):
    name = "e4m3" if quantizer is model.quantize else "mxfp4"
    for x, what in (
        (torch.ones(2, 32, dtype=torch.bfloat16), "bfloat16 on cpu"),
        (torch.ones(2, 32, requires_grad=True), "float32 on cpu"),
        (torch.ones(2, 32, device="meta"), "float32 on meta"),
    ):
        message = f"not a torch.Tensor of {what}: mxdot.gpu takes tensors"
        with pytest.raises(TypeError, match=f"^x must be an array that NumPy reads, {message}$"):
            quantizer(x, name)
