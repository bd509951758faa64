"""Limits of the clock of a dot unit, and changes that raise it."""

from dataclasses import replace
from typing import TYPE_CHECKING

from .placement import place
from .sections import dot_sections

if TYPE_CHECKING:
    from ..units.dot import DotConfig


def bound(config: "DotConfig") -> str:
    """The slowest stretch between two registers: the loop, a section, or several sections."""
    slowest = config.pipeline.slowest
    names = " ".join(section.name for section in slowest)
    if len(slowest) == 1:
        return f"section {names}"
    if any(section.loop for section in slowest):
        return f"the loop of the running value ({names})"
    return f"the sections {names} between two registers"


def most_in_flight(config: "DotConfig") -> int:
    """Products in flight that keep the loop busy when all of its places have registers."""
    from ..units.dot import MAX_INTERLEAVE

    turns = sum(part.loop for part in dot_sections(config, finer=True))
    return max(1, min(turns, MAX_INTERLEAVE))


def idle_stages(config: "DotConfig") -> int:
    """Stages without which the slowest stretch stays as it is."""
    fewer = config.stages
    while fewer > config.stage_limits[0] and _delay(config, fewer - 1) <= config.pipeline.delay:
        fewer -= 1
    return config.stages - fewer


def _delay(config: "DotConfig", stages: int) -> int:
    sections = dot_sections(config, replace(config, stages=stages).is_cut_finer)
    return place(sections, stages, config.interleave).delay


def advice(config: "DotConfig") -> str | None:
    """One line when stages buy no clock because the loop is slowest; None otherwise."""
    idle = idle_stages(config)
    loops = any(section.loop for section in config.pipeline.slowest)
    more, most = config.interleave + 1, most_in_flight(config)
    if not idle or not loops or more > most:
        return None
    numbers = f"{more} to {most}" if more < most else f"{most}"
    return (
        f"{config.stages} stages are no faster than {config.stages - idle}: "
        f"{bound(config)} is slowest; --interleave {numbers} puts registers into it"
    )
