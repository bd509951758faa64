"""Try what is published of formats and scales, where a minute of a CPU can.

    python examples/claims.py                    # every claim
    python examples/claims.py storage int8       # some

docs/claims.md says where each claim comes from, and has those that need a network or a GPU.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from claims_int8 import train

from mxdot.compare.accuracy.metrics import sqnr_db
from mxdot.compare.schemes import DEFAULT_DATA, matrices
from mxdot.compare.schemes.data import Pair
from mxdot.model.schemes import TENSOR, Scheme, calibrate, quantize, scheme, storage
from mxdot.model.schemes import matmul as multiply

SIZE = 8192  # of the square matrices of a product
BFLOAT16, FLOAT32 = 16, 32  # bits
PARAMETERS = 10**9
SEEDS = 24  # of a small network


def stored(*names: str) -> Iterator[str]:
    """Bits of an element beside floats."""
    for name in names:
        bits = float(storage(name, SIZE, SIZE).bits_per_element)
        saved = 100 * (1 - bits / BFLOAT16)
        yield (
            f"{name}: {bits:.4g} bits, {FLOAT32 / bits:.2f} times smaller than float32, "
            f"{BFLOAT16 / bits:.2f} than bfloat16 ({saved:.1f}% saved; of 10^9 parameters "
            f"{PARAMETERS * (BFLOAT16 - bits) / 8e6:,.0f} MB)"
        )


def storage_and_traffic() -> Iterator[str]:
    """What schemes save of memory, and of what a product moves."""
    yield from stored("mxfp8_e4m3", "mxfp8_e4m3:b128", "mxfp6_e2m3", "mxfp4", "nvfp4")
    for name in ("mxfp8_e4m3", "mxfp8_e4m3:b128"):
        bits = float(storage(name, SIZE, SIZE).bits_per_element)
        whole = 3 * BFLOAT16 / (2 * bits + BFLOAT16)
        yield (
            f"{name}: operands of a product are {BFLOAT16 / bits:.2f} times fewer bytes than "
            f"bfloat16's, operands and a bfloat16 result {whole:.2f} times"
        )


def product_error() -> Iterator[str]:
    """The error of MXFP8 products, by several measures of it."""
    for pair in matrices(DEFAULT_DATA):
        row = scheme("mxfp8_e4m3:ceil")
        a, b = (quantize(x, row).dequantize().astype(float) for x in (pair.a, pair.b))
        x, y = pair.a.astype(float), pair.b.astype(float)
        exact, product = x @ y.T, a @ b.T
        with np.errstate(divide="ignore", invalid="ignore"):
            element = np.abs(a / x - 1)
        rms = np.sqrt(np.square(product - exact).mean() / np.square(exact).mean())
        relative = np.median(np.abs(product - exact)) / np.median(np.abs(exact))
        yield (
            f"{pair.name}: products {rms:.1%} (RMS of errors over RMS of products), "
            f"{relative:.1%} (medians); an element {np.nanmedian(element):.1%} (median)"
        )


def best_rules() -> Iterator[str]:
    """Scale rules against FP8 with one float scale."""
    names = ("mxfp8_e4m3:floor", "mxfp8_e4m3:ceil", "fp8_e4m3_tensor", "fp8_e4m3_b128")
    for pair in matrices(DEFAULT_DATA):
        yield f"{pair.name}: " + ", ".join(f"{name} {_product_db(pair, name)}" for name in names)


def full_range() -> Iterator[str]:
    """INT8 that ends at -128 beside -127, on data as often positive as negative.

    MX INT8 by hand with either end: the contract's ends at -127, as the published remedy.
    """
    x = np.random.default_rng(1).standard_normal((2**14, 128)).astype(np.float32)
    blocks = x.astype(float).reshape(-1, 32)
    steps = np.exp2(np.floor(np.log2(np.abs(blocks).max(axis=1, keepdims=True))) - 6)
    for lowest in (-128, -127):
        there, back = (np.clip(np.rint(v / steps), lowest, 127) for v in (blocks, -blocks))
        tilt = (there + back) / 2  # 0 where negative and positive numbers are treated alike
        shift = (tilt * steps).mean() / np.abs(blocks).mean()
        yield (
            f"{lowest}..127: mean shifted by {shift:+.1e} of the mean magnitude, "
            f"{(tilt != 0).any(axis=1).mean():.1%} of the blocks"
        )
    row = quantize(x, "mxint8").dequantize().astype(float).reshape(-1, 32) / steps
    yield f"mxint8: {row.min():.0f}..{row.max():.0f}"


def full_range_training() -> Iterator[str]:
    """A small network trained in INT8 that ends at -128, and at -127."""
    runs = {lowest: [train(lowest, seed) for seed in range(SEEDS)] for lowest in (-128, -127, None)}
    plain = [run.loss for run in runs.pop(None)]
    yield f"not quantised: loss {np.mean(plain):.5f} of the variance, {SEEDS} seeds"
    for lowest, each in runs.items():
        less = np.array([run.loss for run in each]) - plain
        yield (
            f"{lowest}..127: loss {less.mean():+.5f} beside it, standard error "
            f"{less.std(ddof=1) / SEEDS**0.5:.5f}; gradients shifted by "
            f"{np.mean([run.shift for run in each]):+.1e} of their mean magnitude"
        )
    ends = np.array([[run.loss for run in each] for each in runs.values()])
    less = ends[0] - ends[1]
    yield (
        f"-128 against -127: loss {less.mean():+.5f}, standard error "
        f"{less.std(ddof=1) / SEEDS**0.5:.5f}"
    )


def octav() -> Iterator[str]:
    """Clipping by OCTAV for 4 and 8 bits, SQNR of the clipped operand."""
    for pair in matrices(DEFAULT_DATA):
        x = pair.a.astype(float)
        for name in ("int4_tensor", "int8_tensor"):
            row = scheme(name)
            assert row.levels[0].granularity == TENSOR
            found = []
            for calibrator in ("amax", "octav"):
                limits = calibrate([pair.a], row, calibrator)
                values = quantize(pair.a, row, limits=limits).dequantize().astype(float)
                found.append(f"{calibrator} {sqnr_db(x, values - x):.1f} dB")
            yield f"{pair.name}, {name}: {', '.join(found)}"


def code_books() -> Iterator[str]:
    """A format chosen for each block, beside the best of the formats for all of them."""
    int4 = replace(scheme("mixed4"), name="mxint4", elements=scheme("mixed4").elements[1:])
    books = {
        "mixed4": ("mxfp4:even", int4),
        "mixed6": ("mxfp6_e2m3:even", "mxfp6_e3m2:ceil"),
        "mixed8": ("mxfp8_e4m3:ceil", "mxfp8_e5m2:ceil", "mxint8"),
    }
    for pair in matrices(DEFAULT_DATA):
        for book, parts in books.items():
            alone = ", ".join(f"{name} {_product_db(pair, name)}" for name in parts)
            yield f"{pair.name}: {book} {_product_db(pair, book)} ({alone})"


def accumulators() -> Iterator[str]:
    """What the accumulator of FP8 units takes from MXFP8 products."""
    for pair in matrices(DEFAULT_DATA):
        row = scheme("mxfp8_e4m3:ceil")
        a, b = quantize(pair.a, row), quantize(pair.b, row)
        product = pair.a.astype(float) @ pair.b.T.astype(float)
        found = [
            f"{rule} {sqnr_db(product, multiply(a, b, rule).astype(float) - product):.2f} dB"
            for rule in ("exact", "hopper", "blackwell")
        ]
        yield f"{pair.name}: {', '.join(found)}"


def _product_db(pair: Pair, name: Scheme | str) -> str:
    a, b = (quantize(x, name).dequantize().astype(float) for x in (pair.a, pair.b))
    product = pair.a.astype(float) @ pair.b.T.astype(float)
    return f"{sqnr_db(product, a @ b.T - product):.1f} dB"


CLAIMS: dict[str, Callable[[], Iterator[str]]] = {
    "storage": storage_and_traffic,
    "products": product_error,
    "rules": best_rules,
    "int8": full_range,
    "int8-training": full_range_training,
    "octav": octav,
    "code-books": code_books,
    "accumulators": accumulators,
}


def main(arguments: list[str] | None = None) -> int:
    """Print what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help=f"of {', '.join(CLAIMS)}")
    names = parser.parse_args(arguments).claims or list(CLAIMS)
    for name in names:
        if name not in CLAIMS:
            parser.error(f"claims must be of {', '.join(CLAIMS)}, not {name!r}")
    for name in names:
        print(f"{name}: {(CLAIMS[name].__doc__ or '').splitlines()[0]}")
        for line in CLAIMS[name]():
            print(f"  {line}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
