"""Drives quantisers in RTL: blocks of values in, codes and scales out, with gaps and stalls."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw_bench import Evaluator, assert_same
from mxdot.hw.quantize import QuantizeUnit
from mxdot.model import QuantizeConfig
from mxdot.sim.quantize.stimulus import outer_scales

EVERY_FORMAT = "e4m3,e5m2,e3m2,e2m3,e2m1,int8,int4"
EVERY_RULE = "floor,ceil,even,twice"


@cache
def elaborated(config: QuantizeConfig) -> Evaluator:
    """The unit, once for all tests of a process."""
    return Evaluator(QuantizeUnit(config))


def evaluator_of(config: QuantizeConfig) -> Evaluator:
    """The unit, after a reset."""
    unit = elaborated(config)
    unit.registers = None
    return unit


@dataclass(frozen=True)
class Blocks:
    """n blocks: bits of the values (n, block), mode and rule (n,), words (n, block), outer scales
    (n,), None where the unit takes none. A mode or rule past the last stands for the last."""

    bits: NDArray[np.uint32]
    mode: NDArray[np.int64]
    rule: NDArray[np.int64]
    words: NDArray[np.uint32]
    outer: NDArray[np.uint32] | None = None

    def __len__(self) -> int:
        return len(self.bits)


def values_of(config: QuantizeConfig, bits: NDArray) -> NDArray:
    """The floats of these bits."""
    word = np.uint16 if config.source.bits == 16 else np.uint32
    return bits.astype(word).view(config.source.dtype)


def random_blocks(config: QuantizeConfig, rng: np.random.Generator, n: int) -> Blocks:
    """Any exponent, values up to 40 binades below the largest, ties, zeros, specials."""
    source = config.source
    shape = (n, config.block)
    ones = 2**source.exponent_bits - 1
    below = rng.integers(0, 41, shape) * (rng.random(shape) < 0.8)
    exponent = np.clip(rng.integers(0, ones + 1, (n, 1)) - below, 0, ones)
    special = rng.random(shape) < 0.05
    exponent = np.where((exponent == ones) & ~special, ones - 1, exponent)
    fraction = rng.integers(0, 2**source.mantissa_bits, shape)
    kept = rng.integers(0, source.mantissa_bits + 1, shape)
    kinds = [fraction, fraction >> kept << kept, (1 << kept) - 1, ~((1 << kept) - 1), 0]
    fraction = np.choose(rng.integers(0, len(kinds), shape), kinds) % 2**source.mantissa_bits
    exponent = np.where(rng.random(shape) < 0.05, 0, exponent)
    sign = rng.integers(0, 2, shape)
    bits = sign << (source.bits - 1) | exponent << source.mantissa_bits | fraction
    return with_choices(config, rng, bits)


def with_choices(config: QuantizeConfig, rng: np.random.Generator, bits: NDArray) -> Blocks:
    """These values with random modes, rules and words."""
    n = len(bits)
    mode = rng.integers(0, 1 << config.mode_bits, n)
    rule = rng.integers(0, 1 << config.rule_bits, n)
    words = rng.integers(0, 2**32, bits.shape, dtype=np.uint32)
    # The ends of their range decide more than the middle.
    ends = rng.choice(np.array([0, 1, 2**31, 2**32 - 1], np.uint32), bits.shape)
    words = np.where(rng.random(bits.shape) < 0.3, ends, words)
    outer = random_outer(config, rng, bits) if config.divides else None
    return Blocks(bits.astype(np.uint32), mode, rule, words, outer)


def random_outer(config: QuantizeConfig, rng: np.random.Generator, bits: NDArray) -> NDArray:
    """Bits of outer scales, one for each block, as `outer_scales` draws them."""
    values = values_of(config, bits).astype(np.float32)
    magnitude = np.where(np.isfinite(values), np.abs(values), 0).max(axis=1)
    return outer_scales(magnitude.astype(np.float64), rng)


def wanted(config: QuantizeConfig, blocks: Blocks) -> dict[str, NDArray]:
    """The model's codes (n, block) and scales (n,), micro-exponents (n, block / 2) or none, and the
    formats chosen (n,) or none."""
    codes = np.zeros(blocks.bits.shape, np.int64)
    scales = np.zeros(len(blocks), np.int64)
    micro = np.zeros((len(blocks), config.block // 2), np.int64)
    chosen = np.zeros(len(blocks), np.int64)
    modes = np.minimum(blocks.mode, config.modes - 1)
    rules = np.minimum(blocks.rule, len(config.scale_rules) - 1)
    for mode in range(config.modes):
        for rule in range(len(config.scale_rules)):
            rows = (modes == mode) & (rules == rule)
            x = values_of(config, blocks.bits[rows])
            with np.errstate(invalid="ignore"):  # signalling NaN
                outer = None
                if blocks.outer is not None:
                    outer = blocks.outer[rows].view(np.float32)[:, None]
                made = config.quantize(x, blocks.words[rows], mode, rule, outer)
            codes[rows] = made.codes
            scales[rows] = made.level_scales[int(config.divides)][:, 0]
            if config.micro:
                micro[rows] = made.level_scales[1]
            if made.selectors is not None:
                chosen[rows] = made.selectors[:, 0]
    beats = {"codes": codes, "scale": scales} | ({"micro": micro} if config.micro else {})
    return beats | ({"mode": chosen} if config.selector_bits else {})


def check_blocks(config: QuantizeConfig, blocks: Blocks) -> None:
    """Every block through a unit of its own, and compared."""
    unit = evaluator_of(config)
    n, lanes = len(blocks), config.lanes
    codes, scales, micro, chosen = [], [], [], []
    for cycle in range(config.latency + 2 * config.beats - 1):
        beat = min(cycle, config.beats - 1)
        outputs = unit(
            **{
                "i.payload": _payload(config, blocks, np.arange(n), np.full(n, beat)),
                "i.valid": np.full(n, cycle < config.beats),
                "o.ready": np.ones(n, int),
            }
        )
        if cycle >= config.latency + config.beats - 1:
            assert outputs["o.valid"].all()
            codes.append(outputs["o.payload"]["codes"])
            scales.append(outputs["o.payload"]["scale"])
            if config.micro:
                micro.append(_bits(outputs["o.payload"]["micro"], config.micro_bits))
            if config.selector_bits:
                chosen.append(outputs["o.payload"]["mode"])
    assert len(codes) == config.beats
    assert all((scale == scales[0]).all() for scale in scales)
    got = {"codes": np.concatenate(codes, axis=1), "scale": scales[0]}
    got |= {"micro": np.concatenate(micro, axis=1)} if config.micro else {}
    got |= {"mode": chosen[0]} if config.selector_bits else {}
    assert got["codes"].shape == (n, lanes * config.beats)
    named = {"values": blocks.bits, "words": blocks.words, "mode": blocks.mode, "rule": blocks.rule}
    named |= {} if blocks.outer is None else {"outer": blocks.outer}
    assert_same(got, wanted(config, blocks), **named)


def _bits(words: NDArray, count: int) -> NDArray:
    """The low `count` bits of each word, the lowest first."""
    return words[:, None] >> np.arange(count) & 1


def _payload(config: QuantizeConfig, blocks: Blocks, row: NDArray, beat: NDArray) -> dict[str, Any]:
    lanes = beat[:, None] * config.lanes + np.arange(config.lanes)
    payload = {
        "values": blocks.bits[row[:, None], lanes].astype(np.int64),
        "mode": blocks.mode[row],
        "rule": blocks.rule[row],
    }
    if blocks.outer is not None:  # counts with the last beat, before it anything
        last = beat == config.beats - 1
        payload["outer"] = np.where(last, blocks.outer[row], blocks.words[row, 0]).astype(np.int64)
    if config.word_bits:
        payload["random"] = blocks.words[row[:, None], lanes].astype(np.int64)
    return payload


@dataclass
class Run:
    """Cycles of each stream's beats, (streams, beats): accepted and given."""

    accepted: NDArray[np.int64]
    given: NDArray[np.int64]


def run_streams(
    config: QuantizeConfig,
    blocks: Blocks,
    rng: np.random.Generator,
    streams: int,
    *,
    gap: float = 0.0,
    stall: float = 0.0,
    reset_at: int | None = None,
) -> Run:
    """Blocks cut into equal streams, each into a unit of its own; compares, and returns the times.

    After a reset in cycle `reset_at` every stream starts afresh. Checks that codes that wait do not
    change, that `last` marks the last beat, and that no other codes come.
    """
    unit = evaluator_of(config)
    each = len(blocks) // streams
    total = each * config.beats
    first = np.arange(streams) * each
    want = wanted(config, blocks)
    sent, came = np.zeros(streams, int), np.zeros(streams, int)
    run = Run(np.full((streams, total), -1), np.full((streams, total), -1))
    offered, held = np.zeros(streams, bool), None
    for cycle in range(40 * total + 200):
        offered = (offered | (rng.random(streams) >= gap)) & (sent < total)
        ready = rng.random(streams) >= stall
        at = np.minimum(sent, total - 1)
        reset = cycle == reset_at
        out = unit(
            **{
                "i.payload": _payload(
                    config, blocks, first + at // config.beats, at % config.beats
                ),
                "i.valid": offered,
                "o.ready": ready,
                "rst": np.full(streams, reset),
            }
        )
        if reset:
            sent[:], came[:], offered, held = 0, 0, np.zeros(streams, bool), None
            continue
        valid, payload = out["o.valid"] == 1, out["o.payload"]
        assert (came[valid] < total).all(), "codes from nowhere"
        if held is not None:
            waits, before = held
            assert valid[waits].all(), "codes were withdrawn"
            for name, value in before.items():
                assert (payload[name][waits] == value[waits]).all(), f"{name} changed"
        held = valid & ~ready, payload
        row, beat = first + np.minimum(came, total - 1) // config.beats, came % config.beats
        lanes = beat[:, None] * config.lanes + np.arange(config.lanes)
        good = {"codes": want["codes"][row[:, None], lanes], "scale": want["scale"][row]}
        if config.micro:
            pairs = beat[:, None] * config.micro_bits + np.arange(config.micro_bits)
            packed = want["micro"][row[:, None], pairs] << np.arange(config.micro_bits)
            good["micro"] = packed.sum(axis=1)
        if config.selector_bits:
            good["mode"] = want["mode"][row]
        if config.beats > 1:
            good["last"] = (beat == config.beats - 1).astype(int)
        shown = {name: values[valid] for name, values in payload.items()}
        if valid.any():
            assert_same(
                {k: shown[k] for k in good}, {k: v[valid] for k, v in good.items()}, row=row[valid]
            )
        takes, gives = offered & (out["i.ready"] == 1), valid & ready
        run.accepted[takes, sent[takes]] = cycle
        run.given[gives, came[gives]] = cycle
        sent, came, offered = sent + takes, came + gives, offered & ~takes
        if (came == total).all():
            return run
    raise AssertionError(f"{total - came} beats of codes have not come")
