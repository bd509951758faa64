"""Clocks as texts: `1GHz`, `200MHz`, `750ps`, lists and ranges such as `200..1000/200MHz`."""

import re

from ...util.sweep import expand, values

_CLOCK = re.compile(r"(\d+(?:\.\d+)?) ?(GHz|MHz|ps)", re.IGNORECASE)
_LEAST_PS, _MOST_PS = 50.0, 1e6
MHZ = 1e6
"""Picoseconds of a period at 1 MHz."""


def clock_list(text: str) -> tuple[float, ...]:
    """Periods in picoseconds of a text, each once; ValueError for anything else."""
    return tuple(dict.fromkeys(values(text, "clock", _periods)))


def _periods(item: str, name: str) -> list[float]:
    return [_period(text) for text in expand(item, name)]


def _period(text: str) -> float:
    match = _CLOCK.fullmatch(text)
    if match:
        number, unit = float(match[1]), match[2].lower()
        hertz = {"ghz": 1000.0, "mhz": 1.0}
        period = number if unit == "ps" else MHZ / (number * hertz[unit]) if number else 0.0
        if _LEAST_PS <= period <= _MOST_PS:
            return round(period, 3)
    raise ValueError(
        f"clock must be a frequency or a period from 1MHz to 20GHz, such as 1GHz, 200MHz or 750ps, "
        f"not {text!r}"
    )


def clock_text(period_ps: float) -> str:
    """A clock in words: `1 GHz`, `200 MHz`."""
    mhz = MHZ / period_ps
    return f"{mhz / 1000:.4g} GHz" if mhz >= 1000 else f"{mhz:.4g} MHz"


def clock_option(period_ps: float) -> str:
    """A value of `--clock`."""
    text = clock_text(period_ps).replace(" ", "")
    return text if clock_list(text) == (period_ps,) else f"{period_ps:g}ps"


def reached(delay_ps: float) -> str:
    """The clock that a longest path allows, rounded down."""
    return f"{int(MHZ / delay_ps):,} MHz"
