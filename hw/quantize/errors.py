"""How large the errors become by which a quantiser chooses a format."""

from math import ceil

from ...model import E8M0, ElementFormat, QuantizeConfig


def largest_error(config: QuantizeConfig, fmt: ElementFormat) -> int:
    """A bound of the difference of a value and its element of `fmt`, in the steps of `select`
    digits that both are cut to (section 6 of docs/numerics.md).

    The largest magnitude of a block lies between 2^e and 2^(e + 1), which are 2^digits and twice as
    many steps.
    """
    assert config.select is not None
    one = 2**config.select
    # What exceeds the largest element where the scale does not carry: both cut.
    saturated = 2 * one - 1 - int(fmt.largest_finite / 2.0**fmt.emax * one)
    # Where e may lie among the element's exponents.
    exponents = [fmt.emax]
    if config.scale_rules != ("floor",):  # the scale is twice as large
        exponents.append(fmt.emax - 1)
    least = config.source.lsb - E8M0.emin
    if least < fmt.emax:  # no scale is as small as the rule's
        exponents.append(max(least, 0))
    spacing = max(2.0 ** (max(e, fmt.emin) - fmt.mantissa_bits - e) for e in exponents)
    part = 0.5 if config.rounding == "nearest_even" else 1.0
    return max(saturated, ceil(part * spacing * one))
