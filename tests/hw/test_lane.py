"""Element decoder, product lane and scale adder: every code and every pair of codes."""

# Components defined here get their attributes while they run.
# pyright: reportAttributeAccessIssue=false

from itertools import product

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_bench import Evaluator, assert_same
from mxdot.hw.arithmetic.floats import SpecialLayout
from mxdot.hw.arithmetic.scale import ScaleAdder, ScaleMultiplier
from mxdot.hw.dot.lane import ElementDecoder, ProductLane, ProductLayout
from mxdot.model import E4M3, E8M0, FORMATS, MX_FORMATS, DotConfig, ElementFormat, format_pairs
from mxdot.model.pipeline.widths import Widths
from mxdot.model.products import product_table
from mxdot.model.specials import NAN, NEGATIVE_INF, POSITIVE_INF

FORMAT_PAIRS = list(product(MX_FORMATS, MX_FORMATS))
# Lists with every format on each side, and with the same format under several modes.
MIXED = [
    "e4m3,e5m2,e3m2,e2m3,e2m1,int8,int4",
    "int8,int8xint4,int4xe2m1",
    "e4m3,e5m2,int8xe4m3",
    "e5m2xe4m3,e4m3xe5m2",
    "e2m1,e2m1xint8,e4m3xe2m1,e3m2xe2m3,int8xe5m2",
    "e2m1xe3m2,e2m3xe2m1",
    "e4m3fnuz,e5m2fnuzxe4m3,e4m3",
]


def widths_of(formats) -> Widths:
    return Widths(DotConfig(formats=formats, lanes=4))


def all_codes(fmt: ElementFormat, bits: int) -> np.ndarray:
    """Every code of `fmt`, once with zeros and once with ones in the bits above it."""
    codes = np.arange(2**fmt.bits)
    return np.concatenate([codes, codes | (2**bits - 2**fmt.bits)])


def check_decoder(evaluator: Evaluator, widths, fmt: ElementFormat, mode: int) -> None:
    codes = all_codes(fmt, widths.code_bits)
    got = evaluator(code=codes, mode=mode)["element"]
    low = codes % 2**fmt.bits
    values = fmt.values[low]
    sign, significand, exponent = (table[low] for table in fmt.triples)
    finite = np.isfinite(values)
    assert_same(got["nan"], np.isnan(values), code=codes)
    assert_same(got["inf"], np.isinf(values), code=codes)
    assert_same(got["sign"], sign, code=codes)
    assert_same(
        {name: got[name][finite] for name in ("significand", "exponent")},
        {
            "significand": significand[finite] << (widths.fraction_bits - fmt.mantissa_bits),
            "exponent": exponent[finite] + fmt.mantissa_bits - widths.exponent_min,
        },
        code=codes[finite],
    )


@pytest.mark.parametrize("name", [name for name, fmt in FORMATS.items() if fmt.bits <= 16])
@pytest.mark.contract("F1")
def test_every_code_of_a_decoder_of_one_format(name):
    widths = widths_of(name).a
    check_decoder(Evaluator(ElementDecoder(widths)), widths, FORMATS[name], 0)


@pytest.mark.parametrize("formats", MIXED)
def test_every_code_of_a_decoder_in_every_mode(formats):
    pairs = format_pairs(formats)
    for side, widths in enumerate((widths_of(formats).a, widths_of(formats).b)):
        evaluator = Evaluator(ElementDecoder(widths))
        for mode, pair in enumerate(pairs):
            check_decoder(evaluator, widths, pair[side], mode)


def test_a_mode_past_the_last_selects_the_last_pair():
    """The last pair takes one operand's format from the first, the other's from the second."""
    formats = "e4m3,e5m2,e4m3xe5m2"
    for side, widths in enumerate((widths_of(formats).a, widths_of(formats).b)):
        last = format_pairs(formats)[-1][side]
        check_decoder(Evaluator(ElementDecoder(widths)), widths, last, mode=3)


@pytest.mark.contract("F6", "F9")
def test_a_decoded_element_is_its_value():
    """The decoder's own reading of its outputs, against the values themselves."""
    fmt, widths = MX_FORMATS["e5m2"], widths_of("e4m3,e5m2,int8").a
    codes = np.flatnonzero(np.isfinite(fmt.values))
    got = Evaluator(ElementDecoder(widths))(code=codes, mode=1)["element"]
    exponent = got["exponent"] + widths.exponent_min - widths.fraction_bits
    signed = np.where(got["sign"], -1.0, 1.0) * got["significand"]
    assert_same(np.ldexp(signed, exponent), fmt.values[codes])


class Lane(wiring.Component):
    """A product lane after its decoders. Ports: codes a and b, mode, o and special."""

    def __init__(self, widths: Widths) -> None:
        self.lane = ProductLane(widths)
        self.decoders = {"a": ElementDecoder(widths.a), "b": ElementDecoder(widths.b)}
        super().__init__(
            {
                "a": In(widths.a.code_bits),
                "b": In(widths.b.code_bits),
                "mode": In(widths.config.mode_bits),
                "o": Out(ProductLayout(widths)),
                "special": Out(SpecialLayout()),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.lane = self.lane
        for side, decoder in self.decoders.items():
            m.submodules[side] = decoder
            m.d.comb += [
                decoder.code.eq(getattr(self, side)),
                decoder.mode.eq(self.mode),
                getattr(self.lane, side).eq(decoder.element),
            ]
        m.d.comb += [self.o.eq(self.lane.o), self.special.eq(self.lane.special)]
        return m


def check_lane(evaluator: Evaluator, widths: Widths, mode: int) -> None:
    """All code pairs of one mode against the model's table."""
    fmt_a, fmt_b = widths.config.formats[mode]
    table = product_table(fmt_a, fmt_b)
    a = np.repeat(np.arange(2**fmt_a.bits), 2**fmt_b.bits)
    b = np.tile(np.arange(2**fmt_b.bits), 2**fmt_a.bits)
    got = evaluator(a=a, b=b, mode=mode)
    specials = table.specials
    want = {
        "nan": specials & NAN != 0,
        "pos_inf": specials & POSITIVE_INF != 0,
        "neg_inf": specials & NEGATIVE_INF != 0,
    }
    assert_same(got["special"], want, a=a, b=b)

    finite = specials == 0
    a, b = a[finite], b[finite]
    lane = {name: values[finite] for name, values in got["o"].items()}
    significands = table.significands[finite]
    nonzero = significands != 0
    fraction_bits = fmt_a.mantissa_bits + fmt_b.mantissa_bits
    magnitude = np.abs(significands) << (widths.product_fraction_bits - fraction_bits)
    sign = fmt_a.triples.sign[a] ^ fmt_b.triples.sign[b]
    assert_same(
        {name: lane[name] for name in ("significand", "sign", "nonzero")},
        {"significand": magnitude, "sign": sign, "nonzero": nonzero},
        a=a,
        b=b,
    )
    exponents = table.unit_exponents[finite].astype(int) - widths.exponent_min
    assert_same(lane["exponent"][nonzero], exponents[nonzero], a=a[nonzero], b=b[nonzero])


@pytest.mark.parametrize(("a", "b"), FORMAT_PAIRS)
@pytest.mark.contract("P1", "P2")
def test_every_code_pair_through_the_lane(a, b):
    widths = widths_of(f"{a}x{b}")
    check_lane(Evaluator(Lane(widths)), widths, 0)


@pytest.mark.parametrize("formats", MIXED)
def test_every_code_pair_through_a_lane_in_every_mode(formats):
    widths = widths_of(formats)
    evaluator = Evaluator(Lane(widths))
    for mode in range(len(widths.config.formats)):
        check_lane(evaluator, widths, mode)


@pytest.mark.parametrize(("a", "b"), FORMAT_PAIRS)
def test_a_lane_is_as_wide_as_its_largest_product(a, b):
    widths = widths_of(f"{a}x{b}")
    table = product_table(MX_FORMATS[a], MX_FORMATS[b])
    assert widths.product_bits == int(np.abs(table.significands).max()).bit_length()
    exponents = table.unit_exponents[table.significands != 0].astype(int)
    zero, lowest = widths.exponent_min, widths.exponent_min + widths.exponent_low
    assert lowest <= exponents.min()
    assert exponents.max() == lowest + widths.exponent_span < zero + 2**widths.exponent_bits


@pytest.mark.contract("T8", "T9", "T10", "U3")
def test_every_pair_of_e4m3_scales():
    a, b = np.repeat(np.arange(128), 128), np.tile(np.arange(128), 128)
    got = Evaluator(ScaleMultiplier(E4M3))(a=a, b=b)
    nan = (a == 127) | (b == 127)
    assert_same(got["nan"], nan, a=a, b=b)
    values = np.ldexp(got["significand"].astype(float), got["exponent"] - 6)
    want = E4M3.values[a] * E4M3.values[b]
    assert_same(values[~nan], want[~nan], a=a[~nan], b=b[~nan])
    assert (got["exponent"][~nan].min(), got["exponent"][~nan].max()) == (-12, 16)


@pytest.mark.contract("F5", "P3")
def test_every_pair_of_scales():
    a, b = np.repeat(np.arange(256), 256), np.tile(np.arange(256), 256)
    got = Evaluator(ScaleAdder())(a=a, b=b)
    nan = (a == E8M0.nan_code) | (b == E8M0.nan_code)
    assert_same(got["nan"], nan, a=a, b=b)
    assert_same(got["exponent"][~nan], (a + b - 254)[~nan], a=a[~nan], b=b[~nan])
    assert (got["exponent"][~nan].min(), got["exponent"][~nan].max()) == (-254, 254)
