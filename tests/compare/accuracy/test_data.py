"""The data sets have the properties that their names promise."""

from typing import cast

import numpy as np
import pytest

from mxdot.compare.accuracy import evaluate
from mxdot.model import quantize
from mxdot.util.data.sets import DATA_SETS, OUTLIER_SHARE, data_set, draw_rows

COUNT, LENGTH, BLOCK = 64, 1024, 32


def draw(name, length=LENGTH, block=BLOCK, seed=0):
    return data_set(name).draw(np.random.default_rng(seed), COUNT, length, block)


def kurtosis(x):
    x = x.astype(np.float64) - x.mean()
    return (x**4).mean() / (x**2).mean() ** 2


@pytest.mark.parametrize("name", DATA_SETS)
@pytest.mark.parametrize("length", [1, 3, 32, 1000])
def test_shape_type_and_seed(name, length):
    x, y = draw(name, length)
    assert x.shape == y.shape == (COUNT, length)
    assert x.dtype == y.dtype == np.float32
    assert np.isfinite(x).all()
    assert np.isfinite(y).all()
    again = draw(name, length)
    np.testing.assert_array_equal(x, again[0])
    np.testing.assert_array_equal(y, again[1])
    assert not np.array_equal(x, draw(name, length, seed=1)[0])


def test_normal():
    for v in draw("normal"):
        assert abs(v.mean()) < 0.02
        assert abs(v.std() - 1) < 0.02
        assert abs(kurtosis(v) - 3) < 0.1


def test_uniform():
    for v in draw("uniform"):
        assert -1 <= v.min() < -0.999
        assert 0.999 < v.max() <= 1
        assert abs(kurtosis(v) - 1.8) < 0.02


def test_student_t_has_heavy_tails():
    for v in draw("student-t"):
        assert abs(np.median(v)) < 0.02
        assert kurtosis(v) > 10
        # Beyond 10: 0.1% of each tail, where a normal variable has 1e-23.
        assert 0.0008 < np.mean(v > 10) < 0.0014


def test_log_normal_products_are_positive():
    for v in draw("log-normal"):
        assert (v > 0).all()
        assert abs(np.log(v).mean()) < 0.02
        assert abs(np.log(v).std() - 1) < 0.02


def test_outliers_are_channels_of_x():
    x, y = draw("outliers")
    rms = np.sqrt(np.square(x).mean(axis=0))
    large = rms > 16
    assert large.sum() == LENGTH // OUTLIER_SHARE
    assert rms[large].min() > 20
    assert rms[~large].max() < 2
    assert np.sqrt(np.square(y).mean(axis=0)).max() < 2


@pytest.mark.parametrize(
    ("length", "block", "least"), [(32, 32, 10), (1024, 32, 300), (64, 4, 100)]
)
def test_cancellation_is_ill_conditioned(length, block, least):
    x, y = (v.astype(np.float64) for v in draw("cancellation", length, block))
    condition = np.abs(x * y).sum(axis=1) / np.abs((x * y).sum(axis=1))
    assert np.median(condition) > least
    normal = [v.astype(np.float64) for v in draw("normal", length)]
    plain = np.abs(normal[0] * normal[1]).sum(axis=1) / np.abs((normal[0] * normal[1]).sum(axis=1))
    assert np.median(condition) > 3 * np.median(plain)


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2", "e2m1", "int8"])
def test_cancellation_survives_quantisation(fmt):
    x, y = draw("cancellation")
    a, b = quantize(x, fmt), quantize(y, fmt)
    products = a.dequantize().astype(np.float64) * b.dequantize()
    blocks = products.reshape(COUNT, LENGTH // BLOCK, BLOCK)
    quarter = LENGTH // BLOCK // 4
    np.testing.assert_array_equal(blocks[:, -quarter:], -blocks[:, :quarter])
    middle = blocks[:, quarter:-quarter]
    np.testing.assert_array_equal(middle[..., -BLOCK // 4 :], -middle[..., : BLOCK // 4])


def test_real_rows_are_those_of_one_layer():
    pairs = tuple(
        (np.full((5, width), width, np.float32), np.full((7, width), -width, np.float32))
        for width in (16, 48)
    )
    x, y = draw_rows(pairs, np.random.default_rng(0), 9, 100)
    assert isinstance(x, np.ndarray)
    assert isinstance(y, np.ndarray)
    np.testing.assert_array_equal(x, -y)
    assert sorted(np.unique(x[::2])) == [16]
    assert sorted(np.unique(x[1::2])) == [48]


def test_real_rows_in_full_where_they_fit():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    got, _ = draw_rows(((x, x),), np.random.default_rng(0), 8, 15)
    assert isinstance(got, np.ndarray)
    rows = {tuple(r) for r in x}
    assert {tuple(r) for r in got[:, :6]} <= rows
    assert {tuple(r) for r in got[:, 6:12]} <= rows
    assert np.isin(got[:, 12:], x).all()


def test_real_stretches_of_rows():
    x = np.arange(32, dtype=np.float32).reshape(1, 32)
    got, _ = draw_rows(((x, x),), np.random.default_rng(0), 100, 8)
    assert isinstance(got, np.ndarray)
    np.testing.assert_array_equal(np.diff(got, axis=1), 1)
    assert set(got[:, 0]) == set(range(25))


def test_real_is_the_captured_encoder():
    x, w = draw("real", 384)
    assert np.isfinite(x).all()
    assert 0 < np.abs(w).mean() < 0.1 < np.abs(x).max()


def test_file_with_layers_takes_all_of_them(tmp_path):
    path = tmp_path / "layers.npz"
    ones = np.ones((3, 8), np.float32)
    arrays = {"p.input": ones, "p.weight": 2 * ones, "q.input": 3 * ones, "q.weight": ones}
    np.savez(path, allow_pickle=False, **arrays)
    x, y = draw(str(path), 8)
    assert set(x[:, 0]) == {1, 3}
    assert set(y[:, 0]) == {1, 2}


def test_file_with_named_arrays(tmp_path):
    path = tmp_path / "named.npz"
    ones = np.ones((3, 8), np.float32)
    np.savez(path, u=ones, v=2 * ones, w=4 * ones)
    x, y = draw(f"{path}#w,u", 8)
    assert (x == 4).all()
    assert (y == 1).all()


def test_a_file_draws_the_same_rows_from_any_directory(tmp_path, monkeypatch):
    rows = np.arange(320, dtype=np.float32).reshape(40, 8)
    np.savez(tmp_path / "rows.npz", u=rows, v=rows)
    monkeypatch.chdir(tmp_path)
    names = ["rows.npz", "./rows.npz", str(tmp_path / "rows.npz")]
    assert len({data_set(name).stream for name in names}) == 1
    assert data_set("rows.npz").stream != data_set("rows.npz#u,v").stream
    got = [evaluate("aligned:4", "e4m3", name, (8,), count=16)[0].sqnr_total_db for name in names]
    assert got[0] == got[1] == got[2]


def test_changed_file_is_read_again(tmp_path):
    path = tmp_path / "changing.npz"
    for value in (1.0, 5.0):
        path.unlink(missing_ok=True)
        rows = np.full((2, 8), value, np.float32)
        np.savez(path, u=rows, v=rows)
        assert (draw(str(path), 8)[0] == value).all()


def test_unknown_name():
    with pytest.raises(
        ValueError,
        match=r"data must be one of normal, .*FILE\.npy, FILE\.safetensors, FILE\.gguf, not 'x'",
    ):
        data_set("x")
    with pytest.raises(TypeError, match="data must be text, not 3"):
        data_set(cast(str, 3))


def test_bad_files(tmp_path):
    with pytest.raises(ValueError, match=r"none\.npz: no such file$"):
        data_set(str(tmp_path / "none.npz"))
    path = tmp_path / "nan.npz"
    np.savez(path, u=np.full((2, 8), np.nan, np.float32), v=np.ones((2, 8), np.float32))
    with pytest.raises(ValueError, match=r"nan\.npz must hold finite values"):
        data_set(str(path))
