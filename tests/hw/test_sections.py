"""Each section of the datapath alone, fed by the ones before it, against the model's stages."""

from itertools import product

import numpy as np
import pytest

from cases import random_cases
from compare import FULL, generator, some
from hw_bench import Evaluator, assert_same
from mxdot.hw.arithmetic.floats import FLOAT32_FRACTION
from mxdot.hw.dot import fixed
from mxdot.hw.dot.block import row_bits
from mxdot.hw.dot.float_tree import FloatAccumulate
from mxdot.hw.dot.sections import build
from mxdot.hw.dot.window import Window
from mxdot.model import DotConfig
from mxdot.model.accumulators import NAN_DEFAULT, Accumulator, Fixed
from mxdot.model.pipeline.widths import Widths
from mxdot.model.products import NO_EXPONENT


class Datapath:
    """One block of each of n dot products through the sections, without registers.

    `out`: values that each section writes. `stages`: the model's stages of the block's first step.
    `finite`: cases without special values; the other two are meaningful only there.
    """

    def __init__(
        self, config: DotConfig, mode: int = 0, n: int = 1500, like: DotConfig | None = None
    ) -> None:
        """like: the unit with whose cases it is compared."""
        self.widths = Widths(config)
        cases = random_cases(
            generator("sections", str(like or config)), config.formats[mode], n, 1, config.lanes
        )
        a, b = cases.a, cases.b
        self.trace = config.dot(a, b, cases.c, stages=True)
        self.stages = {name: stage[:, 0] for name, stage in self.trace.stages.items()}
        values = {
            "a": a.codes, "b": b.codes, "mode": np.full(n, mode), "c": cases.c.view(np.uint32),
            "scale_a": a.scales[:, 0], "scale_b": b.scales[:, 0],
            **dict.fromkeys(("first", "starts", "promotes"), np.ones(n, int)),
        }  # fmt: skip
        self.out = {}
        for part, section in zip(config.pipeline.sections, build(self.widths), strict=True):
            # A running value that comes round is 0, and not read in the first block.
            reads = {name: values.get(name, np.zeros(n, int)) for name in section.reads}
            self.out[part.name] = Evaluator(section)(i=reads)["o"]
            values |= self.out[part.name]
        special = values["special"]
        self.finite = ~np.any([flag.any(axis=1) for flag in special.values()], axis=0)
        self.finite &= np.isfinite(cases.c)
        assert 200 < self.finite.sum() < n

    def same(self, got, want) -> None:
        """Equal in every case without special values."""
        assert_same(np.asarray(got)[self.finite], np.asarray(want)[self.finite])

    def check_result(self) -> None:
        (got,) = list(self.out.values())[-1].values()
        want = self.trace.result.view(f"u{self.trace.result.itemsize}")
        assert_same(got["c"], want)
        assert_same(got["flags"], {name: getattr(self.trace.flags, name) for name in got["flags"]})


FORMATS = ["e4m3", "e5m2", "e2m1xint8", "e4m3,e5m2xe3m2,int8"]


def last_mode(formats: str) -> int:
    return formats.count(",")


def terms_of(path: Datapath, name: str) -> np.ndarray:
    """The terms that leave a section, of which negative ones are inverted magnitudes."""
    words, negative = path.out[name]["words"], path.out["multiply"]["products"]["sign"] == 1
    return np.where(negative, -(words ^ ((1 << path.widths.term_bits) - 1)), words)


def signed(terms) -> np.ndarray:
    return np.where(terms["sign"], -terms["magnitude"], terms["magnitude"])


@pytest.mark.parametrize("formats", some(FORMATS, 2))
def test_multiply(formats):
    path = Datapath(DotConfig(formats=formats, lanes=4), last_mode(formats))
    widths, got = path.widths, path.out["multiply"]
    a, b = widths.config.formats[-1]
    place = widths.product_fraction_bits - a.mantissa_bits - b.mantissa_bits
    terms = got["products"]
    products = np.where(terms["sign"], -terms["significand"], terms["significand"])
    path.same(products, path.stages["product"] << place)
    exponent = terms["exponent"] + widths.exponent_min
    path.same(np.where(terms["nonzero"], exponent, NO_EXPONENT), path.stages["unit_exponent"])
    path.same(path.out["decode"]["scale"], path.stages["scale"])


def test_multiply_gathers_the_specials_of_each_step():
    config = DotConfig(formats="e5m2", lanes=32, accumulator="ada")
    path = Datapath(config)
    special = path.out["multiply"]["special"]
    assert special["nan"].shape == (1500, 2)
    apart = [name for name in special if (special[name][:, 0] != special[name][:, 1]).any()]
    assert apart == ["nan", "pos_inf", "neg_inf"]
    path.check_result()


@pytest.mark.parametrize(
    ("formats", "fraction_bits"), [*some(product(FORMATS, [0, 13]), 3), ("e4m3", 7), ("e5m2", 30)]
)
def test_sections_of_aligned(formats, fraction_bits):
    config = DotConfig(formats=formats, lanes=4, accumulator=f"aligned:{fraction_bits}")
    path = Datapath(config, last_mode(formats))
    nonzero = path.out["multiply"]["products"]["nonzero"].any(axis=1)
    largest = path.out["largest1"]["largest"] + path.widths.exponent_min
    path.same(np.where(nonzero, largest, 0), path.stages["largest_exponent"])
    path.same(terms_of(path, "align"), path.stages["aligned"])
    if path.widths.sum_is_cut:
        path.same(path.out["sum"]["total"], path.stages["integer_sum"])
        grid = path.stages["largest_exponent"] - fraction_bits
        cut = np.ldexp(rows_sum(path, "cut").astype(float), grid)
        path.same(cut, path.stages["block_result"])
    else:
        path.same(rows_sum(path, "sum"), path.stages["integer_sum"])
    path.check_result()


@pytest.mark.parametrize(
    ("formats", "accumulator", "options"),
    [
        ("bf16", "aligned:13", {}),
        ("e2m1", "exact", {"out": "float16"}),
        ("e4m3", "aligned:13:float16", {}),
        *(
            [
                ("e4m3,e5m2xe3m2,int8", "aligned:13", {}),
                ("e4m3", "aligned:13", {}),
                ("e5m2", "aligned:3", {}),
                ("e4m3", "exact", {}),
                ("e5m2", "aligned:30", {"out": "bfloat16"}),
            ]
            if FULL
            else []
        ),
    ],
)
def test_sections_cut_in_parts(formats, accumulator, options):
    """Parts write the same values as whole sections, under the same names where both have them."""
    whole = DotConfig(formats, 4, accumulator, **options)
    finer = DotConfig(formats, 4, accumulator, whole.stage_limits[1], **options)
    assert finer.is_cut_finer
    assert not whole.is_cut_finer
    mode = last_mode(formats)
    path, parts = Datapath(whole, mode), Datapath(finer, mode, like=whole)
    parts.check_result()
    values, in_parts = ({k: v for o in p.out.values() for k, v in o.items()} for p in (path, parts))
    same = {"products", "special", "largest", "offsets", "words", "before", "aligned_c", "sum"}
    same &= values.keys()
    assert len(same) > 5
    for name in same | {"count", "c_sticky", "normalized", "running"}:
        assert_same(in_parts[name], values[name])


def rows_sum(path: Datapath, name: str) -> np.ndarray:
    """The integer that the section's two rows stand for."""
    rows = path.out[name]["rows"]
    bits = Window(path.widths.sum_bits).row_bits
    total = (rows[:, 0].astype(object) + rows[:, 1]) % (1 << bits)
    return np.where(total >> (bits - 1), total - (1 << bits), total)


@pytest.mark.parametrize("formats", some(["e4m3", "e2m3", "e2m1xint8"], 2))
def test_sections_of_exact(formats):
    path = Datapath(DotConfig(formats=formats, lanes=8, accumulator="exact"))
    table_lsb = path.stages["product_exponent"] - path.widths.lsb
    path.same(terms_of(path, "place"), path.stages["product"] << np.maximum(table_lsb, 0))
    path.same(rows_sum(path, "sum"), path.stages["integer_sum"])
    path.check_result()


@pytest.mark.parametrize(
    ("formats", "lanes", "accumulator"),
    some(
        (
            (*operands, accumulator)
            for operands in (("int8", 8), ("int8", 32), ("int4xint8", 16))
            for accumulator in ("exact", "int32", "fixed:32:-16")
        ),
        4,
    ),
)
def test_sections_of_integer_codes(formats, lanes, accumulator):
    """Partial products in a tree of several sections, each of which hands on the same sum."""
    path = Datapath(DotConfig(formats=formats, lanes=lanes, accumulator=accumulator))
    integer_sum = path.stages["integer_sum"].astype(int)
    for name in ("multiply", "compress1", "compress2"):
        total = path.out[name]["partial_sums"].astype(object).sum(axis=1)
        path.same((total - integer_sum) % (1 << row_bits(path.widths)), 0 * integer_sum)
    if accumulator == "fixed:32:-16":
        path.same(path.out["sum"]["total"], integer_sum)
    else:
        path.same(rows_sum(path, "sum"), integer_sum)
    path.check_result()


@pytest.mark.parametrize(("formats", "lanes"), [*product(some(FORMATS, 3), [4]), ("e4m3", 16)])
def test_sections_of_float32(formats, lanes):
    config = DotConfig(formats=formats, lanes=lanes, accumulator="float32")
    path = Datapath(config, last_mode(formats), n=800)
    block = path.out[f"tree{lanes.bit_length() - 1}"]["block"]
    exponent = block["exponent"] - path.out["decode"]["scale"] - FLOAT32_FRACTION
    value = np.ldexp(block["significand"].astype(float), exponent)
    path.same(np.where(block["sign"], -value, value), path.stages["block_result"])
    path.same(block["zero"], path.stages["block_result"] == 0)
    path.check_result()


@pytest.mark.parametrize(
    ("formats", "accumulator"),
    [
        *some(product(FORMATS, ["fused:13", "hopper"]), 3),
        ("e4m3", "fused:0"),
        ("e4m3", "hopper-fp16"),
    ],
)
def test_sections_of_fused(formats, accumulator):
    path = Datapath(
        DotConfig(formats=formats, lanes=4, accumulator=accumulator), last_mode(formats)
    )
    path.same(path.out["join0"]["exponent"], path.stages["largest_exponent"])
    path.same(signed(path.out["join0"]["terms"])[:, :4], path.stages["aligned"])
    path.same(path.out["sum0"]["total"], path.stages["integer_sum"])
    path.check_result()


@pytest.mark.parametrize("out", ["float16", "bfloat16"])
def test_sections_of_a_promoted_preset(out):
    config = DotConfig(formats="e5m2xe4m3", lanes=8, accumulator="hopper-promoted", out=out)
    path = Datapath(config)
    path.same(path.out["round0"]["partial"]["c"], path.stages["partial"].view(np.uint32))
    path.same(path.out["promote"]["running"]["c"], path.stages["accumulator"].view(np.uint32))
    path.check_result()


@pytest.mark.parametrize(
    ("formats", "accumulator"),
    [*some(product(FORMATS, ["fixed:48:-20", "fixed:24:-8:wrap"]), 3), ("e4m3", "fixed:100:-60")],
)
def test_sections_of_fixed(formats, accumulator):
    path = Datapath(
        DotConfig(formats=formats, lanes=4, accumulator=accumulator), last_mode(formats)
    )
    a, b = path.widths.config.formats[-1]
    own_lsb = a.emin + b.emin - a.mantissa_bits - b.mantissa_bits
    path.same(path.out["sum"]["total"], path.stages["integer_sum"] << (own_lsb - path.widths.lsb))
    path.same(path.out["accumulate"]["register"]["register"], path.stages["accumulator"])
    path.check_result()


# Sections of `fixed` on inputs that a datapath seldom gives ---------------------------------------


def widths_of(accumulator: Accumulator | str) -> Widths:
    return Widths(DotConfig(formats="e2m1", lanes=4, accumulator=accumulator))


def toward_zero(value: int, exponent: int) -> int:
    """RZ(value x 2^exponent)."""
    magnitude = abs(value) << exponent if exponent >= 0 else abs(value) >> -exponent
    return -magnitude if value < 0 else magnitude


def low_bits(value: int, width: int) -> int:
    """The low bits of an integer in two's complement, signed."""
    return (value + 2 ** (width - 1)) % 2**width - 2 ** (width - 1)


@pytest.mark.parametrize(("width", "lsb"), [(2, 0), (24, -8), (48, -300), (30, 400), (12, -1024)])
def test_scale_of_fixed_at_every_shift(width, lsb):
    """Every exponent s: far to the left, within the register, far to the right."""
    rule = Fixed(width, lsb)
    widths = widths_of(rule)
    largest = 2 ** (widths.total_bits - 1) - 1
    totals = np.array([0, 1, -1, 5, -77, largest, -largest])
    scale = np.repeat(np.arange(-254, 255), len(totals))
    total = np.tile(totals, 509)
    c_bits = np.resize([0x3F800000, 0x80000001, 0x7F7FFFFF, 0xC2F70A3D, 0], len(total))
    got = Evaluator(fixed.Scale(widths))(i={"total": total, "scale": scale, "c": c_bits})["o"]
    c = c_bits.astype(np.uint32).view(np.float32).astype(float)
    check_addend(rule, got["addend"], total.tolist(), (scale + widths.lsb - lsb).tolist())
    check_addend(rule, got["start"], [int(v) for v in np.ldexp(c, 149)], [-149 - lsb] * len(c))


def check_addend(rule: Fixed, got, values: list[int], exponents: list[int]) -> None:
    exact = [toward_zero(v, e) for v, e in zip(values, exponents, strict=True)]
    sticky = [toward_zero(x, -e) != v for x, v, e in zip(exact, values, exponents, strict=True)]
    fits = np.array([abs(x) < 2**rule.width for x in exact])
    assert_same(got["outside"], ~fits)
    assert_same(got["negative"], [v < 0 for v in values])
    assert_same(got["sticky"], sticky)
    assert_same(
        [low_bits(int(v), rule.width) for v in got["value"]],
        [low_bits(x, rule.width) for x in exact],
    )
    assert got["value"][fits].tolist() == [x for x in exact if abs(x) < 2**rule.width]


@pytest.mark.parametrize("overflow", ["saturate", "wrap"])
def test_accumulate_of_fixed_for_every_register_and_addend(overflow):
    """A 4-bit register, every state, every addend of 5 bits, and addends from outside."""
    rule = Fixed(4, 0, overflow)
    register = np.repeat(np.arange(-8, 8), 2 * 31 * 2)
    value = np.tile(np.repeat(np.arange(-15, 16), 4), 16)
    outside = np.tile([0, 0, 1, 1], 16 * 31)
    negative = np.where(outside, np.tile([0, 1, 0, 1], 16 * 31), value < 0)
    addend = {"value": value, "outside": outside, "negative": negative}
    inputs = {"addend": addend, "register": {"register": register}}
    got = Evaluator(fixed.FixedAccumulate(widths_of(rule)))(i=inputs)["o"]["register"]
    far = np.where(negative, -1, 1) * 160 + value  # the low bits stay those of `value`
    total = register + np.where(outside, far, value)
    over = (total < -8) | (total > 7)
    wrapped = (total + 8) % 16 - 8
    want = np.clip(total, -8, 7) if overflow == "saturate" else wrapped
    assert_same(got["register"], want, register=register, value=value, outside=outside)
    assert_same(got["flags"]["saturated"], over, register=register, value=value, outside=outside)


def test_round_of_fixed_for_every_register():
    rule = Fixed(12, -151)
    register = np.arange(-2048, 2048)
    inputs = {"register": {"register": register}}
    got = Evaluator(fixed.FixedRound(widths_of(rule)))(i=inputs)["o"]["running"]
    want = np.ldexp(register.astype(float), -151).astype(np.float32) + np.float32(0)
    assert_same(got["c"], want.view(np.uint32), register=register)
    inexact = want.astype(float) != np.ldexp(register.astype(float), -151)
    assert_same(got["flags"]["inexact"], inexact)
    assert_same(got["flags"]["underflow"], inexact)
    assert inexact.any()


# Special values and the flags' memory ------------------------------------------------------------

ONE, INF, MINUS_INF, NAN = 0x3F800000, 0x7F800000, 0xFF800000, 0x7FC12345


@pytest.mark.parametrize("c", [ONE, INF, MINUS_INF, NAN, 0xFFFFFFFF])
def test_accumulate_of_every_special(c):
    """c with every set of special terms, as the caller's and as the running value."""
    kinds = np.arange(8)
    flags = {"nan": kinds & 1, "pos_inf": kinds >> 1 & 1, "neg_inf": kinds >> 2 & 1}
    special = {name: flag[:, None] for name, flag in flags.items()}  # of one step
    one = {"significand": 1 << 23, "exponent": 0, "sign": 0, "zero": 0}
    terms = {"block": {name: np.full(8, v) for name, v in one.items()}, "special": special}
    values = {ONE: 1.0, INF: np.inf, MINUS_INF: -np.inf}
    start = values.get(c, np.nan)
    want = []
    for kind in kinds:
        parts = [v for bit, v in enumerate((np.nan, np.inf, -np.inf)) if kind >> bit & 1]
        with np.errstate(invalid="ignore"):
            total = np.float32(start + sum(parts) if parts else start + 1.0)
        want.append(NAN_DEFAULT if np.isnan(total) else int(total.view(np.uint32)))
    accumulate = Evaluator(FloatAccumulate(widths_of("float32"), False))
    other = 0x41234567
    for inputs in (
        {"first": 1, "c": c, "running": {"c": other}},
        {"first": 0, "c": other, "running": {"c": c}},
    ):
        got = accumulate(i=terms | inputs)["o"]["running"]["c"]
        assert [hex(v) for v in got] == [hex(v) for v in want]


def test_flags_stay_until_the_next_product():
    flags = {"overflow": 1, "underflow": 1, "inexact": 1, "saturated": 0}
    first = np.array([0, 1])
    inputs = {"block": {"zero": 1}, "first": first, "running": {"flags": flags}}
    got = Evaluator(FloatAccumulate(widths_of("float32"), False))(i=inputs)["o"]["running"]
    for name in ("overflow", "underflow", "inexact"):
        assert got["flags"][name].tolist() == [1, 0], name
