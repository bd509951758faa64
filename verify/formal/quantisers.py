"""Claims about the streams of quantisers, alone and after a dot unit, from any state."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from ...model import DotConfig, DotQuantizeConfig, QuantizeConfig
from ...model.formats import IntegerFormat
from . import streams
from .claim import Claim
from .observer import ObservedUnit, Rule, unit
from .streams import READY_TOO_SOON, Inside, Queue
from .units import ONE_OR_NAN

BLOCK = 4
RING_TOO_SOON = ("assign i_ready = ", "assign i_ready = i_valid | ")
"""Bug in the ring of a unit of several beats."""
QUANTISERS = {
    "1-beat": QuantizeConfig("e2m1", BLOCK, "bfloat16", stages=3),
    "2-beats": QuantizeConfig("e2m1", BLOCK, "bfloat16", beats=2, stages=3),
    "e4m3-scales": QuantizeConfig("e2m1", BLOCK, "bfloat16", scales="e4m3", beats=2, stages=3),
    "stochastic": QuantizeConfig("e2m1", BLOCK, "bfloat16", rounding="stochastic", stages=5),
    "lfsr": QuantizeConfig(
        "e2m1", BLOCK, "bfloat16", rounding="stochastic", random="lfsr", stages=5
    ),
    "micro": QuantizeConfig("sm4", BLOCK, "bfloat16", micro=True, beats=2, stages=3),
    "choice": QuantizeConfig("e2m1,int4_symmetric", BLOCK, "bfloat16", select=4, stages=4),
}
"""Units whose values have as many exponents as float32."""
KINDS = {
    "e4m3-scales": "E4M3 scales, values of 2^127 and infinities, ",
    "stochastic": "stochastic rounding, ",
    "lfsr": "stochastic rounding by its own shift registers, ",
    "micro": "micro-exponents, ",
    "choice": "choosing between E2M1 and INT4, ",
}
LARGE_OR_INFINITE = "-1111111-0000000"
"""2^127 and infinities of bfloat16, with either sign."""
TIED: dict[str, dict[str, int | str]] = {
    "e4m3-scales": {"in_outer": 0x3F800000, "in_values": LARGE_OR_INFINITE * 2}
}
"""Inputs that are not free, because ABC would not finish: 1 as a float32, and a beat's values."""
SIX_AND_MORE = f"{0:032b}-100000010-00000-100000011000000"
"""Values of 6, and of 4 or 5, of which E2M1 has no 5, of either sign; and zeros."""
DOT_QUANTISER = DotQuantizeConfig(
    DotConfig("e2m1", 4, "exact", 1, load_c=False, out="bfloat16"), "e2m1", BLOCK,
    quantizer_stages=2,
)  # fmt: skip


def claims() -> Iterator[Claim]:
    """Claims about the smallest blocks."""
    for name, config in QUANTISERS.items():
        beats = f"{config.beats} beats" if config.beats > 1 else "1 beat"
        kind = KINDS.get(name, "")
        words = f"quantiser of blocks of {BLOCK}, {kind}{beats}, {config.stages} stages"
        subject = _subject(config, TIED.get(name, {}))
        streamed, narrower = subject, words
        if config.select is not None:  # ABC would not finish else
            streamed = _subject(config, {"in_values": SIX_AND_MORE})
            narrower = f"{words}, values of 6, of 4 or 5, and two zeros"
        yield _stream(f"quantize-{name}", narrower, streamed, config, config.beats)
        code = "code" if config.select is None else "code but a zero of INT4"
        yield Claim(
            f"order:quantize-{name}",
            f"{words}: each {code} has its value's sign, in order, whatever the gaps and stalls; "
            "of a block with NaN or an infinity, and of no other, the scale is NaN and the codes 0",
            subject, _signs(config), _bug(config.beats),
        )  # fmt: skip
    words = f"dot unit of one stage and a quantiser of blocks of {BLOCK}"
    yield _stream("dot-quantize", words, _subject(DOT_QUANTISER, {}), DOT_QUANTISER, BLOCK)
    one = {"in_scale_a": 127, "in_scale_b": 127, "in_first": 1, "in_last": 1, "in_b": 2}
    yield Claim(
        "order:dot-quantize",
        f"{words}: each code has the sign of its product, in order, whatever the gaps and stalls",
        _subject(DOT_QUANTISER, {**one, "in_a": f"{0:012b}----"}), _sign_of_lane_0, _bug(BLOCK),
    )  # fmt: skip
    tied = {"in_a": 0, "in_b": 0, "in_scale_b": 127, "in_scale_a": ONE_OR_NAN}
    yield Claim(
        "chain:dot-quantize",
        f"{words}: a block is NaN where a block of one of its {BLOCK} products is, and no other, "
        "whatever the gaps and stalls, if the first block after the reset begins a product",
        _subject(DOT_QUANTISER, tied), _poisons, _bug(BLOCK),
    )  # fmt: skip


Config = QuantizeConfig | DotQuantizeConfig


def _subject(config: Config, tied: Mapping[str, int | str]) -> Callable[[], ObservedUnit]:
    return lambda: replace(unit(config), tied=tied)


def _bug(beats: int) -> tuple[str, str]:
    return RING_TOO_SOON if beats > 1 else READY_TOO_SOON


def _stream(
    name: str, words: str, subject: Callable[[], ObservedUnit], config: Config, group: int
) -> Claim:
    what = "values" if isinstance(config, QuantizeConfig) else "products"
    last = ", `out_last` where a block ends" if group > 1 else ""  # else the port is absent
    return Claim(
        f"stream:{name}",
        f"{words}: as many beats of codes as of {what}{last}; in the documented "
        "latency; a beat is taken in every cycle; one that leaves stays until it is taken; no "
        "deadlock",
        subject, _handshake(config.latency, group), _bug(group),
    )  # fmt: skip


def _handshake(latency: int, group: int) -> Rule:
    """group: items that make a block."""

    def wrong(m: Module, p: Any) -> Value:
        enters = p.in_valid & p.in_ready & getattr(p, "in_last", 1)
        inside = Inside(m, p, enters, latency, latency + group, group)
        flows = streams.ready_for(m, p.out_ready, latency + group)
        place = Signal(range(group))
        left = streams.leaves(p)
        with m.If(left):
            m.d.sync += place.eq(Mux(place == group - 1, 0, place + 1))
        last = p.out_last if group > 1 else place == group - 1
        return (
            ~p.rst
            & Cat(
                inside.wrong(flows),
                p.out_ready & ~p.in_ready,
                p.out_valid & (last != (place == group - 1)),
                streams.changes(m, p),
            ).any()
        )

    return wrong


def _signs(config: QuantizeConfig) -> Rule:
    """Nothing else of a value is looked at but whether it is finite."""
    bits, exponent = config.source.bits, config.source.mantissa_bits

    def wrong(m: Module, p: Any) -> Value:
        values = [p.in_values.word_select(i, bits) for i in range(config.lanes)]
        signs = Cat(value[-1] for value in values)
        odd = Cat(value[exponent : bits - 1].all() for value in values).any()
        codes = [p.out_codes.word_select(i, config.bits) for i in range(config.lanes)]
        code_signs = Cat(code[-1] for code in codes)
        # Zeros of a format without a sign of its own have none.
        known = Cat(_has_sign(p, code, config) for code in codes)
        poisoned, queue = _blocks(m, p, p.in_valid & p.in_ready, signs, odd, config)
        unlike = Mux(poisoned, p.out_codes != 0, (code_signs ^ queue.oldest) & known)
        nan = p.out_scale == config.scale_format.nan_code
        return ~p.rst & p.out_valid & (queue.empty | unlike | (nan != poisoned))

    return wrong


def _has_sign(p: Any, code: Value, config: QuantizeConfig) -> Value:
    """Whether the sign of a code is its value's, whichever format the unit chose."""
    if config.select is None:
        return Const(1, 1)
    whole = [isinstance(f, IntegerFormat) and not f.sign_magnitude for f in config.formats]
    return code.any() | ~Const(sum(w << i for i, w in enumerate(whole)), len(whole)).bit_select(
        p.out_mode, 1
    )


def _blocks(
    m: Module, p: Any, enters: Value, item: Value, odd: Value, config: QuantizeConfig
) -> tuple[Value, Queue]:
    """Whether the beat that leaves is of a block in which any was odd, and what came with each."""
    group, room = config.beats, config.latency + config.beats + 1
    place, gone = Signal(range(group), name="place"), Signal(range(group), name="gone")
    before = Signal(name="odd_before")
    completes, ends = enters & (place == group - 1), streams.leaves(p) & (gone == group - 1)
    so_far = odd | (before & (place != 0))
    with m.If(enters):
        m.d.sync += [place.eq(Mux(completes, 0, place + 1)), before.eq(so_far)]
    with m.If(streams.leaves(p)):
        m.d.sync += gone.eq(Mux(ends, 0, gone + 1))
    items = Queue(m, len(item), room, enters, item, streams.leaves(p))
    blocks = Queue(m, 1, room, completes, so_far, ends)
    return blocks.oldest, items


def _sign_of_lane_0(m: Module, p: Any) -> Value:
    """Products of one block of E2M1, in which that lane counts; a sum of zero is +0."""
    room = DOT_QUANTISER.latency + BLOCK + 1
    negative = p.in_a[3] & p.in_a[:3].any()
    queue = Queue(m, 1, room, p.in_valid & p.in_ready, negative, streams.leaves(p))
    return ~p.rst & p.out_valid & (queue.empty | (p.out_code[-1] != queue.oldest))


def _poisons(m: Module, p: Any) -> Value:
    """Products of any number of blocks of zeros, some of them NaN by their scale."""
    config = DOT_QUANTISER.quantizer
    takes = p.in_valid & p.in_ready
    poisoned, begun = Signal(), Signal()
    nan, known = p.in_scale_a[-1] | (poisoned & ~p.in_first), p.in_first | begun
    with m.If(takes):
        m.d.sync += [poisoned.eq(nan), begun.eq(known)]
    # What comes before a first block belongs to no product: the claim says nothing of it.
    given = Signal(init=1)
    with m.If(takes & ~known):
        m.d.sync += given.eq(0)
    is_nan, queue = _blocks(m, p, takes & p.in_last, nan, nan, config)
    unlike = (p.out_scale == config.scale_format.nan_code) != is_nan
    return ~p.rst & given & p.out_valid & (queue.empty | unlike)
