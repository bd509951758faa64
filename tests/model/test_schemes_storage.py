"""Storage derived from the description: published figures and byte totals counted by hand."""

from fractions import Fraction

import numpy as np
import pytest

from mxdot.model.schemes import SCHEMES, bits_per_element, quantize, storage


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("mxfp8_e4m3", "8.25"),
        ("mxfp6_e2m3", "6.25"),
        ("mxfp4", "4.25"),
        ("fp8_e4m3_b128", "8.25"),
        ("fp8_e4m3_b32_f16", "8.5"),
        ("int8_channel", "8"),
        ("int4_g128", "4.125"),
        ("int4_affine_g128", "4.15625"),
        ("msfp12", "4.5"),  # of the papers: MSFP12 and MSFP16 4.5 and 8.5, MX9, MX6, MX4
        ("msfp16", "8.5"),
        ("mx9", "9"),
        ("mx6", "6"),
        ("mx4", "4"),
        ("vsquant4_u4", "4.25"),
        ("vsquant8_u6", "8.375"),
        ("nvfp4", "4.5"),
        ("mixed8", "8.3125"),
        ("mixed4", "4.28125"),
    ],
)
@pytest.mark.contract("S24", "S41", "S44")
def test_bits_per_element(name, bits):
    assert bits_per_element(name) == Fraction(bits)


@pytest.mark.contract("S43")
def test_published_figures_of_mxfp8():
    mx = storage("mxfp8_e4m3", 1024, 1024)
    assert mx.bits_per_element / 8 == Fraction("1.03125")
    assert f"{float(mx.compression):.2f}" == "3.88"
    assert (mx.elements, mx.scales, mx.total) == (1048576, (32768,), 1081344)
    assert storage("mxfp8_e4m3", 1024, 1024, transposed=True).total == 2 * 1081344


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("fp8_e4m3_tensor", 1048576 + 4),
        ("fp8_e4m3_row", 1048576 + 4 * 1024),
        ("fp8_e4m3_128x128", 1048576 + 4 * 64),
        ("int8_affine", 1048576 + 4 + 1),
        ("int4_g32", 524288 + 2 * 32768),
        ("int4_affine_g128", 524288 + 2 * 8192 + 8192 // 2),
        ("mx6", 1048576 * 6 // 8),
        ("vsquant4_u4", 524288 + 4 * 1024 + 65536 // 2),
        ("nvfp4", 524288 + 65536 + 4),
        ("mixed8", 1048576 + 32768 + 32768 // 4),
    ],
)
def test_totals_of_1024_by_1024(name, total):
    assert storage(name, 1024, 1024).total == total


@pytest.mark.contract("S42")
def test_padded_tiles_of_scales():
    assert storage("mxfp8_e4m3", 1024, 1024, tiled=True).total == 1081344  # whole tiles already
    assert storage("mxfp8_e4m3", 130, 160, tiled=True).scales == (256 * 8,)
    assert storage("nvfp4", 130, 160, tiled=True).scales == (4, 256 * 12)
    both = storage("mxfp8_e4m3", 160, 1024, tiled=True, transposed=True)
    assert both.scales == (256 * 32 + 1024 * 8,)
    assert (both.elements, both.count) == (2 * 163840, 163840)
    assert both.bits_per_element == Fraction(8 * both.total, 163840)


def test_rows_start_at_a_whole_byte():
    odd = storage("mx4", 3, 16 * 3)
    assert (odd.elements, odd.scales) == (3 * 18, (3 * 3, 3 * 3))
    assert storage("mixed6", 5, 32).selectors == 5


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.contract("S41", "S44")
def test_storage_counts_what_quantisation_makes(name):
    """Bits of every entry of the arrays, at a size where no row is padded."""
    q = quantize(np.ones((128, 256), np.float32), name)
    scheme = q.scheme
    width = scheme.elements[0].bits
    bits = width * q.codes.size
    bits += sum(lev.format.bits * s.size for lev, s in zip(scheme.levels, q.scales, strict=True))
    bits += 0 if q.zero_points is None else width * q.zero_points.size
    bits += 0 if q.selectors is None else scheme.selector_bits * q.selectors.size
    assert 8 * storage(name, 128, 256).total == bits


@pytest.mark.parametrize(
    ("message", "arguments", "options"),
    [
        ("row length must be a multiple of 32 for block 32, not 48", ("mxfp4", 4, 48), {}),
        (
            "row length must be a multiple of 32 for block 32, not 4",
            ("mxfp4", 4, 64),
            {"transposed": True},
        ),
        (
            (
                "tiled must be False for int4_g32: tiles hold 8-bit scales of blocks, not "
                "float16 per block 32"
            ),
            ("int4_g32", 4, 64),
            {"tiled": True},
        ),
        ("rows must be at least 1, not 0", ("mxfp4", 0, 64), {}),
    ],
)
def test_refusals(message, arguments, options):
    with pytest.raises(ValueError, match=f"^{message}$"):
        storage(*arguments, **options)
