"""The failure report of a quantiser: the block in hex, got and want, how to repeat."""

from ...model import QuantizeConfig
from ...model.lfsr import WORD_BITS
from ..job import Failure, UnitJob
from .item import Block, batch_of, words_of


def describe_failure(job: UnitJob, failure: Failure) -> str:
    """The report of one block that came out wrong."""
    config: QuantizeConfig = job.config
    item = failure.item
    fmt, rule = config.formats[item["mode"]], config.scale_rules[item["rule"]]
    values = [beat[0] for beat in item["beats"]]
    lines = [
        f"{failure.where}: {_what(config, failure)}",
        f"seed {job.seed}, unit {job.name}: {config}",
        f"format {fmt} (mode {item['mode']}), scale rule {rule} (rule {item['rule']})",
        f"block {item['number']} after the reset; lane 0 first:",
        f"values {_hex(values, config.source.bits, config.lanes)}",
    ]
    if config.is_stochastic:
        block = Block(item["mode"], item["rule"], tuple(map(tuple, item["beats"])), item["number"])
        words = words_of(config, batch_of(config, [block]))[0].tolist()
        lines.append(f"words  {' '.join(f'{word:0{WORD_BITS // 4}x}' for word in words)}")
    for name, beats in (("got ", failure.got), ("want", failure.want)):
        codes = _hex([beat[0] for beat in beats], config.bits, config.lanes)
        scales = " ".join(f"0x{scale:02x}" for scale in dict.fromkeys(beat[1] for beat in beats))
        lines.append(f"{name} scale {scales}, codes {codes}")
    if job.waves:
        lines.append(f"waves: {job.directory}/cycle.fst")
    if job.repeat:
        lines.append(f"repeat with: {job.repeat}")
    return "\n".join(lines)


def _what(config: QuantizeConfig, failure: Failure) -> str:
    """The first difference."""
    for beat, (got, want) in enumerate(zip(failure.got, failure.want, strict=True)):
        if got[1] != want[1]:
            return "scale differs"
        lane = ((got[0] ^ want[0]).bit_length() - 1) // config.bits
        if got[0] != want[0]:
            return f"codes differ, the last in lane {lane} of beat {beat}"
    return "last differs"


def _hex(words: list[int], width: int, lanes: int) -> str:
    digits = (width + 3) // 4
    ones = 2**width - 1
    return " ".join(f"{w >> width * i & ones:0{digits}x}" for w in words for i in range(lanes))
