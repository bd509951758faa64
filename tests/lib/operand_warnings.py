"""Warnings of operands that a machine does not multiply."""

import warnings

FP8 = "e4m3, e5m2, e4m3xe5m2, e5m2xe4m3"


def line(machine, text, pair):
    return (
        f"accumulator {machine} is a machine that multiplies {text}, not {pair}: results are those "
        "of its rule, of no machine"
    )


def recorded(call):
    """Every warning that `call` gives."""
    with warnings.catch_warnings(record=True) as every:
        warnings.simplefilter("always")
        call()
    return every
