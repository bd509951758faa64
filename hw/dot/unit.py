"""DotUnit, the MX dot-product unit, and its top module."""

from typing import Any

from amaranth.hdl import Const, Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...model.outputs import IntegerOutput, result_float
from ...model.pipeline.delays import DEFAULT_DELAYS
from ...model.pipeline.widths import Widths
from ...model.trace import FLAG_NAMES
from ...model.units.dot import DotConfig
from ..hierarchy import submodule, used
from ..pipeline import Admission, SectionChain, Token
from ..result_queue import MovingQueue, ResultQueue
from ..top import Top
from .multiply import block_values
from .sections import build, check

HANDSHAKE = ("first", "last", "slot")
"""Values of a block on which `ready` may depend."""


class InputLayout(data.StructLayout):
    """One block: codes of a and b (lane 0 lowest), their scales, the mode; c with `first`; the slot
    of its dot product among several in flight.
    """

    def __init__(self, config: DotConfig) -> None:
        c = 32 if config.load_c else 0
        control = {"first": 1, "last": 1, **slot_value(config)}
        super().__init__({**block_values(Widths(config)), "c": c, **control})


class ResultLayout(data.StructLayout):
    """The result's bits, its flags if the unit has them, and its slot."""

    def __init__(self, config: DotConfig) -> None:
        flags = data.StructLayout(dict.fromkeys(FLAG_NAMES, 1) if config.status else {})
        super().__init__({"result": config.out.bits, "flags": flags, **slot_value(config)})


def slot_value(config: DotConfig) -> dict[str, ShapeLike]:
    """Number of a dot product in flight, for units with several."""
    return {"slot": config.slot_bits} if config.slot_bits else {}


class DotUnit(wiring.Component):
    """Dot products of MX blocks, one block per cycle, as the numeric contract says to the bit.

    ::

              i: a, b (lanes x bits)   scale_a, scale_b (8)    first, last, c (32)
                      |                       |                     |
        decode    signs, significands,    scale adder               |
                  exponents of elements   s (10)                    |
        multiply  product (P), exponent,      |                     |
                  sign of each lane           |                     |
                      |                       |                     |
        ...       the accumulator's sections: see the table         |
                      |                       |                     |
        the loop      +-----------------------+-------> c' <--------+
                                                        |  ^ running value, one register
        convert   to float32, bfloat16 or float16       |
                  (if the running value is another)     o: result (32 or 16), flags

    ==============  ===========================================================================
    accumulator     sections and what leaves them (k lanes, F fraction bits)
    ==============  ===========================================================================
    exact, int32    place: k terms of P + span bits; compress: 10, then 5 words; sum: two rows of
                    P + span + log2 k + 3; the loop of one addition: distance, approach, add,
                    carry, count, normalize, round (float_loop.py)
    aligned:F       largest; offset; align: k terms of F + 2 (INT8: 3) bits; compress; sum: two
                    rows of F + 5 + log2 k; cut: 24 digits, RZ (where sums have more); the loop
    fused, presets  largest; then per step join: emax with s and c, terms as above and c in F + 1
                    bits; sum; round: RZ. `hopper-promoted` adds promote: c + partial, RNE
    mxf4nvf4        gather: exact sums of groups; factor: times the scales; as fused, with groups
                    for products, the exponents of their scales for theirs
    floored:F:G     largest; truncate: k terms of F + 2 bits, RZ; gather: their sums; halves: of
                    even and odd places, cut downwards, added (FP8); per step join: sum and c cut
                    downwards, G and F digits below emax; sum; round: RNE
    fixed:W:L       place; sum; scale: W + 1 bits; accumulate: W bits; round: RNE
    float32         tree1 ... tree(log2 k): RNE adders; accumulate: c + 2^s x tree, RNE. Steps of a
                    machine are beats, as those of `exact`; flushed: subnormal results are zeros
    float16, ...:R  as without R; narrow: the caller's c in R, RNE; c' and its way round in R
    to integers     sum; correct: zero points and integer scales (if asked); accumulate: INT32,
                    saturating; rescale: x multiplier (if asked); limit: shift, zero point, clip
    F:scale         as integer results; float: the sum to float32, RNE; rescale: x a float32,
                    exact; round: RNE; convert: to F
    ==============  ===========================================================================

    With E4M3 scales, factor multiplies by both significands, 8 bits: the sum of a block before its
    loop, or each product before largest.

    Integer codes whose products are summed directly (INT8 with `exact`, `int32`, `fixed`) have no
    decoders and no lanes: multiply and compress reduce their partial products to a few words, and
    sum adds these.

    `model.pipeline.widths.Widths` defines P, span and the other widths. A register may stand after
    every section; `config.pipeline` tells where.

    A dot product is the blocks from `first` to `last`. Its result comes `config.latency` cycles
    after its last block was accepted, when nothing stalls. Blocks are accepted one per cycle. A
    block that needs the running value of its product enters the loop `config.interval` cycles after
    the previous block. Until then it waits in the registers before the loop and, when these are
    full, at the input. Reset, at any moment, empties the unit.

    `config.interleave` is the number of dot products that may be in flight. With more than one,
    `slot` of a block and of a result names the dot product; each has its own running value, and
    waits for nothing else. If `interval` of them take turns, a block is taken every cycle. Blocks
    then wait at the input only, for their running value and for room for a result, and results that
    are not taken gather in a queue of `latency` + 1: no net goes from the output's `ready` to every
    register. With `stops` they wait inside as with one dot product.

    With `config.gate_idle` the sections read zeros while no block is offered.

    Ports:

    - `i` in, stream of `InputLayout`: blocks
    - `o` out, stream of `ResultLayout`: results
    """

    clocked = True

    def __init__(self, config: DotConfig, stops: bool = False) -> None:
        self.config = config
        self._stops = stops or config.interleave == 1
        self.widths = Widths(config)
        super().__init__(
            {
                "i": In(stream.Signature(InputLayout(config))),
                "o": Out(stream.Signature(ResultLayout(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        token = self._accept(m)
        if self._stops:
            self._deliver(m, row_of(self.config).connect(m, token), self.o)
        else:
            self._run_on(m, token)
        return m

    def _run_on(self, m: Module, token: Token) -> None:
        """Chain that never stops: a block enters when its running value and room for a result are
        there.
        """
        shape, signature = ResultLayout(self.config), stream.Signature(ResultLayout(self.config))
        # With sections cut finer, the logic before and after them must be as fast.
        finer = self.config.is_cut_finer
        kind = MovingQueue if finer else ResultQueue
        queue = submodule(m, "results", kind(shape, self.config.latency + 1))
        Admission(self.config.interleave, self.config.interval, early=finer).gate(m, token)
        token.gate(m, queue.room)
        result = signature.create(path=("result",))
        self._deliver(m, row_of(self.config, stops=False).connect(m, token), result)
        m.d.comb += [
            queue.reserve.eq(token.valid & token.values["last"]),
            result.ready.eq(1),
            queue.arrives.eq(result.valid),
            queue.result.eq(result.payload),
        ]
        wiring.connect(m, queue.o, wiring.flipped(self.o))

    def _accept(self, m: Module) -> Token:
        """The input stream as a token, with its place in the promotion group.

        starts: the running sum of a loop starts here. promotes: a partial sum that is kept apart is
        added to c after this block.
        """
        payload = self.i.payload
        values = {name: payload[name] for name, _ in payload.shape()}
        if self.config.gate_idle:
            values |= self._gated(m)
        values |= {"starts": payload.first, "promotes": payload.last}
        if not self.config.load_c:
            values["c"] = Const(0, 32)
        last = self.config.interleave - 1
        if last + 1 < 1 << self.config.slot_bits:
            values["slot"] = Mux(payload.slot > last, last, payload.slot)
        token = Token("in", values, self.i.valid)
        m.d.comb += self.i.ready.eq(token.ready)
        every = self.config.accumulator.promotes_every
        if every is None:
            return token
        blocks = max(1, every // self.config.lanes)
        if blocks == 1 and last:  # places of no bits, which Amaranth does not index
            token.values |= {"starts": Const(1), "promotes": Const(1)}
        else:
            self._count_group(m, token, blocks, self.config.interleave)
        return token

    def _gated(self, m: Module) -> dict[str, Value | data.View]:
        """Values of the input, 0 while no block is offered; without those that decide `ready`."""
        payload, gated = self.i.payload, {}
        for name, field in payload.shape():
            if field.width and name not in HANDSHAKE:
                gated[name] = Signal(field.shape, name=f"gated_{name}")
                mask = self.i.valid.replicate(field.width)
                m.d.comb += Value.cast(gated[name]).eq(Value.cast(payload[name]) & mask)
        return gated

    @staticmethod
    def _count_group(m: Module, token: Token, blocks: int, slots: int) -> None:
        """Start a partial sum with every group of `blocks` blocks, and promote it at the group's
        end.
        """
        slot = Value.cast(token.values.get("slot", Const(0, 1)))
        places = data.ArrayLayout(range(blocks), slots)
        place = Signal(places, name="group_place")
        here = Signal(range(blocks), name="group_here")
        first, last = Value.cast(token.values["first"]), Value.cast(token.values["last"])
        starts, promotes = Signal(name="group_starts"), Signal(name="group_ends")
        m.d.comb += [
            here.eq(Mux(first, 0, place[slot])),
            starts.eq(first | (here == 0)),
            promotes.eq(last | (here == blocks - 1)),
        ]
        token.values |= {"starts": starts, "promotes": promotes}
        with m.If(token.valid & token.ready):
            m.d.sync += place[slot].eq(here + 1)  # wraps: groups are powers of two

    def _deliver(self, m: Module, token: Token, o: Any) -> None:
        """Pass results to the stream `o` with the last block; end the tokens of other
        blocks here.
        """
        payload, out = o.payload, result_float(self.config.out)
        result, last = token.values[result_name(self.config)], Value.cast(token.values["last"])
        c, flags = Value.cast(result.c), result.flags
        m.d.comb += [
            payload.result.eq(c),
            *(payload[name].eq(token.values[name]) for name in slot_value(self.config)),
            o.valid.eq(token.valid & last),
            token.ready.eq(o.ready | ~last),
        ]
        if not self.config.status:
            return
        if out is not None:
            special = c[out.mantissa_bits : out.bits - 1].all()
            m.d.comb += payload.flags.invalid.eq(special & c[: out.mantissa_bits].any())
        for name in FLAG_NAMES[1:]:
            m.d.comb += payload.flags[name].eq(flags[name])


def input_values(config: DotConfig) -> dict[str, ShapeLike]:
    """Values that the first section reads: the block, and its place in the dot product."""
    control = {"c": 32, "first": 1, "last": 1, "starts": 1, "promotes": 1}
    return {**block_values(Widths(config)), **control, **slot_value(config)}


def result_name(config: DotConfig) -> str:
    """Name of the value that leaves the last section: running, converted or requantised."""
    out = config.out
    running = config.accumulator.running
    plain = out.format is None if isinstance(out, IntegerOutput) else out == running
    return "running" if plain else "result"


def row_of(config: DotConfig, stops: bool = True) -> SectionChain:
    """Sections of a unit with their registers. stops: True if blocks wait in them."""
    outputs = (result_name(config), "last", *slot_value(config))
    sections, inputs = build(Widths(config)), input_values(config)
    decodes = config.is_cut_finer  # the choice is a section of its own there
    slots = config.interleave
    return SectionChain(
        config.pipeline, sections, inputs, outputs, slots=slots, stops=stops, decodes=decodes
    )


def section_values(config: DotConfig) -> dict[str, dict[str, ShapeLike]]:
    """Values that leave each section of a unit, by names of section and value."""
    sections = [used(section) for section in build(Widths(config))]
    names = [part.name for part in config.pipeline.sections]
    return {name: section.writes for name, section in zip(names, sections, strict=True)}


__all__ = ["DotUnit", "InputLayout", "ResultLayout", "row_of", "section_values"]


NAMES = "c running value, s exponent of both scales, p product, S their sum; RNE to nearest even"
GATES = "without in_valid the datapath reads zeros"
INTEGER_RULE = "exact block sums in a running value of 32 bits, which saturates"
FLAGS = {
    "invalid": "the result is NaN",
    "overflow": "a rounding of finite values gave an infinity",
    "underflow": "a rounding lost bits, and its result is subnormal or zero",
    "inexact": "a non-zero bit was discarded",
    "saturated": "the register left its range",
}
"""Meaning of each flag; all except `invalid` are for any block of the dot product."""
SIDE_INPUTS = {
    "zero_a": "zero point of the block's a",
    "zero_b": "zero point of the block's b",
    "multiplier": "factor of the result, used with in_last",
    "shift": "right shift of the result, used with in_last",
    "zero_out": "zero point of the result, used with in_last",
    "result_scale": "float32 by which the sum is multiplied, used with in_last",
    "micro_a": "micro-exponents of pairs of a, lanes 0 and 1 lowest",
    "micro_b": "micro-exponents of pairs of b, lanes 0 and 1 lowest",
}


class DotTop(Top):
    """A `DotUnit` with plain ports."""

    name = "mxdot_dot"

    def __init__(self, config: DotConfig) -> None:
        super().__init__(config)
        lanes = config.lanes
        self.port("in_valid", 1, "in", "a block is offered")
        self.port("in_ready", 1, "out", "the block offered is taken at this clock edge")
        self.port("in_a", lanes * config.bits_a, "in", f"{lanes} codes of a, lane 0 lowest")
        self.port("in_b", lanes * config.bits_b, "in", f"{lanes} codes of b, lane 0 lowest")
        if config.scale_bits:
            kind = "integer" if config.has_integers else config.scales.upper()
            kind += " scale" if config.scale_blocks == 1 else " scales"
            lowest = "" if config.scale_blocks == 1 else ", that of lane 0 lowest"
            for side in "ab":
                bits = config.scale_blocks * config.scale_bits
                self.port(f"in_scale_{side}", bits, "in", f"{kind} of {side}{lowest}")
        for name, width in config.side_inputs.items():
            self.port(f"in_{name}", width, "in", SIDE_INPUTS[name])
        if config.load_c:
            kind = "INT32" if config.has_integers else "float32"
            self.port("in_c", 32, "in", f"{kind} value to start from, used with in_first")
        self.port("in_first", 1, "in", "first block of a dot product")
        self.port("in_last", 1, "in", "last block of a dot product")
        if config.slot_bits:
            products = f"0 to {config.interleave - 1}"
            self.port("in_slot", config.slot_bits, "in", f"which dot product in flight: {products}")
        if config.mode_bits:
            modes = ", ".join(f"{i} {f}" for i, f in enumerate(config.formats_text.split(",")))
            self.port("in_mode", config.mode_bits, "in", f"formats of a and b: {modes}")
        self.port("out_valid", 1, "out", "a result is offered")
        self.port("out_ready", 1, "in", "the result offered is taken at this clock edge")
        self.port("out_result", config.out.bits, "out", f"result, {config.out.name}")
        if config.slot_bits:
            self.port("out_slot", config.slot_bits, "out", "which dot product it is of")
        if config.status:
            for name in FLAG_NAMES:
                self.port(f"out_{name}", 1, "out", f"status flag: {FLAGS[name]}")

    def unit(self) -> DotUnit:
        check(Widths(self.config))  # before a component is made
        return DotUnit(self.config)

    def connect(self, m: Module, unit: DotUnit, port: dict[str, Signal]) -> None:
        block, result = unit.i.payload, unit.o.payload
        for name, field in block.shape():
            if field.width:
                m.d.comb += block[name].eq(port[f"in_{name}"])
        for name, _ in result.flags.shape():
            m.d.comb += port[f"out_{name}"].eq(result.flags[name])
        m.d.comb += [
            unit.i.valid.eq(port["in_valid"]),
            port["in_ready"].eq(unit.i.ready),
            port["out_valid"].eq(unit.o.valid),
            unit.o.ready.eq(port["out_ready"]),
            port["out_result"].eq(result.result),
        ]
        if "out_slot" in port:
            m.d.comb += port["out_slot"].eq(result.slot)

    def facts(self) -> list[tuple[str, str]]:
        config: DotConfig = self.config
        rule = INTEGER_RULE if config.has_integers else config.accumulator.rule
        chained = f"{config.interval} cycles between chained blocks of one dot product"
        interleave = f"{config.interleave} dot products in flight, told apart by in_slot"
        is_fpga = config.target == "fpga"
        placed = f"those of {config.delays} place the registers"
        on_grid = config.accumulator.sums_exactly and not config.has_integers
        widths = Widths(config)
        total = "g x S" if widths.factor_bits else "S"
        lsb = widths.lsb - widths.factor_fraction_bits
        grid = f"the last digit of {total} is worth 2^s x 2^{lsb}"
        return [
            ("formats", config.formats_text),
            ("accumulator", f"{config.accumulator}: {rule}"),
            ("lanes", str(config.lanes)),
            ("output", config.out.name),
            ("latency", f"{config.latency} cycles from the last block to the result"),
            ("interval", chained),
            *([("interleave", interleave)] if config.interleave > 1 else []),
            *([("delays", placed)] if config.delays != DEFAULT_DELAYS else []),
            *([("gate-idle", GATES)] if config.gate_idle else []),
            *([("target", f"{config.target}: sums and products are + and *")] if is_fpga else []),
            ("registers", config.pipeline.path),
            *([] if config.has_integers else [("names", NAMES)]),
            *([("grid", grid)] if on_grid else []),
        ]
