"""The stored vectors and the captured layers of a real network, on the GPU path."""

from pathlib import Path

import numpy as np
import pytest

from devices import assert_same_blocks, bits, on_devices, tensor
from mxdot import gpu, model
from mxdot.gpu import MXTensor
from mxdot.model import MX_FORMATS, PRESETS, MXArray
from mxdot.sim.dot.vectors import load
from mxdot.util.data.tensors import REAL_FILE

VECTORS = Path(__file__).parent.parent / "vectors"
GROUP = 32  # dot products that one matrix product computes, on its diagonal


def stored():
    """Names of the files whose scales are one E8M0 of a block, as those of an MXTensor."""
    return [
        path.stem
        for path in sorted(VECTORS.glob("*.npz"))
        if not any(config.has_own_scales for config in load(path).configs)
    ]


def grouped(vectors):
    """Indices of dot products of the same number of blocks, at most GROUP of them."""
    lengths = vectors.last - vectors.first + 1
    for length in np.unique(lengths):
        same = np.flatnonzero(lengths == length)
        for start in range(0, len(same), GROUP):
            yield same[start : start + GROUP], int(length)


@on_devices
@pytest.mark.parametrize("name", stored())
def test_stored_vectors(name, device):
    vectors = load(VECTORS / f"{name}.npz")
    for unit, config in enumerate(vectors.configs):
        (formats,) = config.formats
        for chosen, length in grouped(vectors):
            rows = vectors.first[chosen, None] + np.arange(length)
            a, b = (
                MXArray(codes[rows].reshape(len(chosen), -1), scales[rows], fmt, config.lanes)
                for codes, scales, fmt in zip(
                    (vectors.a, vectors.b), (vectors.scale_a, vectors.scale_b), formats, strict=True
                )
            )
            moved_a, moved_b = (MXTensor.from_model(x, device) for x in (a, b))
            c = tensor(vectors.c[chosen].view(np.float32)[:, None], device)
            results = gpu.matmul(moved_a, moved_b, config.accumulator, c).diagonal().cpu().numpy()
            want = vectors.result[unit][chosen].astype(np.uint32)
            np.testing.assert_array_equal(results.view(np.uint32), want, err_msg=str(config))


@on_devices
@pytest.mark.parametrize("layer", ["query", "mlp_up", "mlp_down"])
@pytest.mark.parametrize("fmt", MX_FORMATS)
def test_real_layers(fmt, layer, device):
    with np.load(REAL_FILE) as file:
        x, weight = file[f"{layer}.input"], file[f"{layer}.weight"]
    want_a, want_b = model.quantize(x, fmt), model.quantize(weight, fmt, scale_rule="ceil")
    a = gpu.quantize(tensor(x, device), fmt)
    b = gpu.quantize(tensor(weight, device), fmt, scale_rule="ceil")
    assert_same_blocks(a, want_a)
    assert_same_blocks(b, want_b)
    for accumulator in ("exact", "aligned:13", "float32", "fixed:48:-20", *PRESETS):
        result = gpu.matmul(a, b, accumulator).cpu().numpy()
        want = model.matmul(want_a, want_b, accumulator)
        np.testing.assert_array_equal(bits(result), bits(want), err_msg=accumulator)
