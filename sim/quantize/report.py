"""The failure report of a quantiser: the block in hex, got and want, how to repeat."""

from ...model import QuantizeConfig
from ...model.lfsr import WORD_BITS
from ..engine.job import Failure, UnitJob
from .item import Batch, batch_of, block_of, words_of


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
    """The random words of a batch of one, what came of it, and what was wanted."""
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
    """The first difference."""
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
