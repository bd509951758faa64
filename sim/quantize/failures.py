"""Failures of blocks: simpler ones that still fail, and the report."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...model import QuantizeConfig
from ...model.formats import FLOAT32
from ...model.lfsr import WORD_BITS
from ..engine.job import Failure, UnitJob
from ..engine.stream_unit import fewer_ones, parts
from .item import Batch, batch_of, block_of, words_of

Block = dict[str, Any]

VALUES, WORDS = 0, 1  # places in a beat


def simpler(config: QuantizeConfig, block: Block) -> Iterator[Block]:
    """Blocks with less in them, one or several steps away."""
    values = _values(config, block)
    used = [i for i, bits in enumerate(values) if bits]
    for kept in parts(used):
        yield _with_values(config, block, {i: values[i] for i in kept})
    yield {**block, "beats": [[beat[VALUES], 0] for beat in block["beats"]]}
    if config.outer_bits:
        yield {**block, "outer": _one_outer(config)}
    sign = 1 << config.source.bits - 1
    one = int(np.ones(1, config.source.dtype).view(f"u{config.source.bits // 8}")[0])
    for i in used:
        for bits in {one, values[i] & ~sign, *fewer_ones(values[i])} - {values[i], 0}:
            yield _with_values(config, block, {**{k: values[k] for k in used}, i: bits})


def complexity(config: QuantizeConfig, block: Mapping[str, Any]) -> tuple[int, ...]:
    """(values not zero, outer scale other than one, ones of random words, ones of values)."""
    values = _values(config, block)
    outer = config.outer_bits > 0 and block["outer"] != _one_outer(config)
    words = sum(beat[WORDS].bit_count() for beat in block["beats"])
    ones = sum(bits.bit_count() for bits in values)
    return sum(bits != 0 for bits in values), int(outer), words, ones


def _values(config: QuantizeConfig, block: Mapping[str, Any]) -> list[int]:
    width = config.source.bits
    beats = (beat[VALUES] for beat in block["beats"])
    return [word >> width * i & 2**width - 1 for word in beats for i in range(config.lanes)]


def _with_values(config: QuantizeConfig, block: Block, values: Mapping[int, int]) -> Block:
    """A block of these values at their places, zeros in all others."""
    beats = [[0, beat[WORDS]] for beat in block["beats"]]
    for i, bits in values.items():
        beat, lane = divmod(i, config.lanes)
        beats[beat][VALUES] |= bits << config.source.bits * lane
    return {**block, "beats": beats}


def _one_outer(config: QuantizeConfig) -> int:
    assert config.outer_bits == FLOAT32.bits
    return int(np.ones(1, np.float32).view(np.uint32)[0])


def describe_failure(job: UnitJob, failure: Failure) -> str:
    """The report of one block that came out wrong."""
    config: QuantizeConfig = job.config
    item = failure.item
    rule = config.scale_rules[item["rule"]]
    fmt = f"format {config.formats[item['mode']]} (mode {item['mode']})"
    if config.select is not None:
        fmt = f"one of {config.formats_text}, by errors of {config.select} digits"
    outer = [f"outer scale {item['outer']:08x}"] if config.outer_bits else []
    details = [
        f"{fmt}, scale rule {rule} (rule {item['rule']})",
        f"block {item['number']} after the reset; lane 0 first:",
        f"values {_hex([beat[0] for beat in item['beats']], config.source.bits, config.lanes)}",
        *outer,
        *rounded(config, batch_of(config, [block_of(item)]), failure),
    ]
    return job.report(f"{failure.where}: {what(config, failure)}", details)


def rounded(config: QuantizeConfig, block: Batch, failure: Failure) -> list[str]:
    """The random words of a batch of one, its results, and the wanted results."""
    lines = []
    if config.is_stochastic:
        words = words_of(config, block)[0].tolist()
        lines.append(f"words  {' '.join(f'{word:0{WORD_BITS // 4}x}' for word in words)}")
    for name, beats in (("got ", failure.got), ("want", failure.want)):
        codes = _hex([beat[0] for beat in beats], config.bits, config.lanes)
        if config.micro:
            codes += ", micro-exponents " + _hex(
                [beat[0] >> config.lanes * config.bits for beat in beats], config.micro_bits, 1
            )
        if config.selector_bits:
            chosen = beats[0][0] >> config.lanes * config.bits + config.micro_bits
            fmt = dict(enumerate(config.formats)).get(chosen, "none")
            codes += f", format {fmt} (mode {chosen})"
        scales = " ".join(f"0x{scale:02x}" for scale in dict.fromkeys(beat[1] for beat in beats))
        lines.append(f"{name} scale {scales}, codes {codes}")
    return lines


def what(config: QuantizeConfig, failure: Failure) -> str:
    """The first difference, in words."""
    for beat, (got, want) in enumerate(zip(failure.got, failure.want, strict=True)):
        place = (got[0] ^ want[0]).bit_length() - 1
        if place >= config.lanes * config.bits + config.micro_bits:
            return "another format was chosen"
        if got[1] != want[1]:
            return "scale differs"
        lane = place // config.bits
        if lane >= config.lanes:
            return f"micro-exponents differ in beat {beat}"
        if got[0] != want[0]:
            return f"codes differ, the last in lane {lane} of beat {beat}"
    return "last differs"


def _hex(words: list[int], width: int, lanes: int) -> str:
    digits = (width + 3) // 4
    ones = 2**width - 1
    return " ".join(f"{w >> width * i & ones:0{digits}x}" for w in words for i in range(lanes))
