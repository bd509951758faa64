"""Numbers of the rules in `rules.py`: parameters, roundings, elements and products.

Python is restricted to integers, `Wide` integers, truth values and loops over ranges. Operands of
shifts, `//`, `%`, `&` and `|` are not negative; the last statement of a function returns.
"""

Wide = int
"""Integers of WIDE_BITS bits, with a sign; `int` has 64 bits."""

# Rules, roundings, classes of special values and flags.
FUSED, ALIGNED, EXACT, TREE, FLOORED, CHAINS = 1, 2, 3, 4, 5, 6
TOWARD_ZERO, NEAREST_EVEN, TO_ODD = 0, 1, 2
FINITE_ONLY, NAN_ONLY, IEEE, FNUZ, INTEGER = 0, 1, 2, 3, 4
NAN, POSITIVE, NEGATIVE = 1, 2, 4
INVALID, OVERFLOW, UNDERFLOW, INEXACT, SATURATED = 1, 2, 4, 8, 16
NOTHING = -16384
# FLUSH makes zero, besides subnormal elements: results that are subnormal numbers, or results
# that are below the normal numbers when rounded with exponents of any size.
SUBNORMAL_RESULTS, NORMAL_RESULTS = 1, 2

# Parameters. An export replaces these values.
WIDE_BITS = 1100
LOWEST = -600
RULE = EXACT
TERMS = 0
PERMUTED = 0
PARTS = 1
TOGETHER = 64
SUM_BITS = 31
PROMOTE = 0
FRACTION_BITS = 13
TERM_MODE = TOWARD_ZERO
BLOCK_MODE = TOWARD_ZERO
LEAST = NOTHING
STEP_MANTISSA_BITS = 23
STEP_MODE = NEAREST_EVEN
MANTISSA_BITS = 23
LEAST_EXPONENT = -126
LARGEST_EXPONENT = 127
ADD_MODE = NEAREST_EVEN
FLUSH = 0
FROM_C = 0
OVERFLOW_MEETS_C = 0
NAN_BITS = 0x7FC00000
PRODUCT_LSB = -18
REGISTER_BITS = 48
REGISTER_LSB = -20
WRAP = 0
A_EXPONENT_BITS, A_MANTISSA_BITS, A_BIAS, A_KIND = 4, 3, 7, NAN_ONLY
B_EXPONENT_BITS, B_MANTISSA_BITS, B_BIAS, B_KIND = 4, 3, 7, NAN_ONLY


# Built into every language ----------------------------------------------------------------------


def wide(x: int) -> Wide:
    """The same integer."""
    return x


def narrow(x: Wide) -> int:
    """The same integer; it has less than 64 bits."""
    return x


def length(x: Wide) -> int:
    """Binary digits of an integer that is not negative."""
    return x.bit_length()


def low_part(x: Wide, count: int) -> Wide:
    """The lowest digits of an integer, which may be negative."""
    return x & ((1 << count) - 1)


# Numbers ----------------------------------------------------------------------------------------


def low(x: int, count: int) -> int:
    """The lowest digits of x."""
    return x & ((1 << count) - 1)


def larger(x: int, y: int) -> int:
    """The larger one."""
    return x if x > y else y


def magnitude_of(x: Wide) -> Wide:
    """Its magnitude."""
    return wide(0) - x if x < wide(0) else x


def with_flags(bits: int, flags: int) -> int:
    """A result and its flags in one integer."""
    return bits + (flags << 32)


def class_of(bits: int) -> int:
    """Class of a float32; 0 where it is finite."""
    if low(bits >> 23, 8) != 255:
        return 0
    if low(bits, 23) != 0:
        return NAN
    return NEGATIVE if (bits >> 31) == 1 else POSITIVE


def special(classes: int) -> int:
    """The sum of special terms of these classes, a float32."""
    if classes == POSITIVE:
        return 0x7F800000
    if classes == NEGATIVE:
        return 0xFF800000
    return 0x7FC00000


def significand_of(bits: int) -> int:
    """Significand of a finite float32."""
    return low(bits, 23) if low(bits >> 23, 8) == 0 else low(bits, 23) + (1 << 23)


def exponent_of(bits: int) -> int:
    """Exponent of the last digit of a finite float32."""
    return larger(low(bits >> 23, 8), 1) - 150


def with_sign(magnitude: Wide, is_negative: int) -> Wide:
    """The magnitude with a sign."""
    return wide(0) - magnitude if is_negative == 1 else magnitude


def cut(magnitude: int, shift: int, mode: int) -> Wide:
    """magnitude x 2^shift as an integer, toward zero or to odd."""
    if shift >= 0:
        return wide(magnitude) << shift
    kept = 0 if shift < -62 else magnitude >> (0 - shift)
    if mode == TO_ODD and loses(magnitude, shift) and low(kept, 1) == 0:
        kept = kept + 1
    return wide(kept)


def loses(magnitude: int, shift: int) -> bool:
    """Whether magnitude x 2^shift is no integer."""
    if shift < -62:
        return magnitude != 0
    return shift < 0 and low(magnitude, 0 - shift) != 0


def is_below(magnitude: Wide, exponent: int, bits: int, least: int) -> bool:
    """Whether magnitude x 2^exponent, rounded to the nearest of this many fraction bits with an
    exponent of any size, is below 2^least.
    """
    top = exponent + length(magnitude) - 1
    if top != least - 1:
        return top < least
    spare = length(magnitude) - bits - 2
    if spare < 0:
        return True
    return narrow(magnitude >> spare) != (1 << (bits + 2)) - 1


def rounded(total: Wide, exponent: int, bits: int, least: int, largest: int, mode: int) -> int:
    """total x 2^exponent rounded to a format, as float32 and flags.

    The format has this many fraction bits, and this least and largest exponent.
    """
    magnitude = magnitude_of(total)
    if length(magnitude) == 0:
        return 0
    if FLUSH == NORMAL_RESULTS and is_below(magnitude, exponent, bits, least):
        return with_flags(0, INEXACT | UNDERFLOW)
    place = larger(exponent + length(magnitude) - 1, least) - bits
    shift = place - exponent
    lost = False
    kept = 0
    if shift <= 0:
        kept = narrow(magnitude << (0 - shift))
    else:
        kept = narrow(magnitude >> shift)
        lost = length(low_part(magnitude, shift)) != 0
        half = length(low_part(magnitude >> (shift - 1), 1)) != 0
        beyond = length(low_part(magnitude, shift - 1)) != 0
        if mode == NEAREST_EVEN and half and (beyond or low(kept, 1) == 1):
            kept = kept + 1
        if mode == TO_ODD and lost and low(kept, 1) == 0:
            kept = kept + 1
    sign = (1 << 31) if total < wide(0) else 0
    top = place + length(wide(kept)) - 1
    if kept != 0 and top > largest:
        return with_flags(sign + 0x7F800000, OVERFLOW | INEXACT)
    is_tiny = kept == 0 or top < least
    if FLUSH == SUBNORMAL_RESULTS and is_tiny:
        return with_flags(0, INEXACT | UNDERFLOW)
    flags = (INEXACT | (UNDERFLOW if is_tiny else 0)) if lost else 0
    if kept == 0:
        return with_flags(0, flags)
    if top < -126:
        return with_flags(sign + (kept << (place + 149)), flags)
    fraction = ((kept << 24) >> length(wide(kept))) - (1 << 23)
    return with_flags(sign + ((top + 127) << 23) + fraction, flags)


def to_running(total: Wide, exponent: int, mode: int) -> int:
    """total x 2^exponent rounded to the format of the running value."""
    return rounded(total, exponent, MANTISSA_BITS, LEAST_EXPONENT, LARGEST_EXPONENT, mode)


def to_float32(total: Wide, exponent: int, mode: int) -> int:
    """total x 2^exponent rounded to float32."""
    return rounded(total, exponent, 23, -126, 127, mode)


def placed(bits: int, exponent: int) -> Wide:
    """A finite float32 times 2^exponent, as a multiple of 2^LOWEST."""
    shift = exponent_of(bits) + exponent - LOWEST
    return with_sign(wide(significand_of(bits)) << shift, bits >> 31)


def is_cut(total: Wide, shift: int) -> bool:
    """Whether total x 2^shift is no integer."""
    return shift < 0 and length(low_part(magnitude_of(total), 0 - shift)) != 0


def in_units(total: Wide, shift: int) -> Wide:
    """total x 2^shift toward zero."""
    if shift >= 0:
        return total << shift
    magnitude = magnitude_of(total) >> (0 - shift)
    return wide(0) - magnitude if total < wide(0) else magnitude


def floor_units(total: Wide, shift: int) -> Wide:
    """total x 2^shift downwards."""
    whole = in_units(total, shift)
    return whole - wide(1) if total < wide(0) and is_cut(total, shift) else whole


# Elements ---------------------------------------------------------------------------------------


def sign(code: int, exponent_bits: int, mantissa_bits: int) -> int:
    """1 for a negative element."""
    return low(code >> (exponent_bits + mantissa_bits), 1)


def field(code: int, exponent_bits: int, mantissa_bits: int) -> int:
    """The exponent field of a code."""
    return low(code >> mantissa_bits, exponent_bits)


def significand(code: int, exponent_bits: int, mantissa_bits: int, kind: int) -> int:
    """Significand of a finite element."""
    if kind == INTEGER:
        size = 1 << (mantissa_bits + 2)
        return size - code if sign(code, exponent_bits, mantissa_bits) == 1 else code
    if field(code, exponent_bits, mantissa_bits) == 0:
        return 0 if FLUSH != 0 else low(code, mantissa_bits)
    return low(code, mantissa_bits) + (1 << mantissa_bits)


def digit(code: int, exponent_bits: int, mantissa_bits: int, bias: int, kind: int) -> int:
    """Exponent of the unit digit of an element."""
    if kind == INTEGER:
        return 0
    return larger(field(code, exponent_bits, mantissa_bits), 1) - bias


def element_class(code: int, exponent_bits: int, mantissa_bits: int, kind: int) -> int:
    """Class of an element; 0 where it is finite."""
    ones = 1 << exponent_bits
    fraction = low(code, mantissa_bits)
    negative = sign(code, exponent_bits, mantissa_bits)
    is_last = field(code, exponent_bits, mantissa_bits) == ones - 1
    if kind == NAN_ONLY:
        return NAN if is_last and fraction == (1 << mantissa_bits) - 1 else 0
    if kind == IEEE and is_last:
        return NAN if fraction != 0 else (NEGATIVE if negative == 1 else POSITIVE)
    if kind == FNUZ:
        return NAN if code == (1 << (exponent_bits + mantissa_bits)) else 0
    return 0


# Products ---------------------------------------------------------------------------------------


def product(x: int, y: int) -> int:
    """Magnitude of the product of two elements, in units of its last digit."""
    return significand(x, A_EXPONENT_BITS, A_MANTISSA_BITS, A_KIND) * significand(
        y, B_EXPONENT_BITS, B_MANTISSA_BITS, B_KIND
    )


def product_sign(x: int, y: int) -> int:
    """1 for a negative product."""
    first = sign(x, A_EXPONENT_BITS, A_MANTISSA_BITS)
    return 1 if first != sign(y, B_EXPONENT_BITS, B_MANTISSA_BITS) else 0


def product_digit(x: int, y: int) -> int:
    """Exponent of the product's unit digit."""
    first = digit(x, A_EXPONENT_BITS, A_MANTISSA_BITS, A_BIAS, A_KIND)
    return first + digit(y, B_EXPONENT_BITS, B_MANTISSA_BITS, B_BIAS, B_KIND)


def product_exponent(x: int, y: int) -> int:
    """Exponent of the product's last digit."""
    return product_digit(x, y) - A_MANTISSA_BITS - B_MANTISSA_BITS


def product_class(x: int, y: int) -> int:
    """Class of a product; 0 where it is finite."""
    first = element_class(x, A_EXPONENT_BITS, A_MANTISSA_BITS, A_KIND)
    second = element_class(y, B_EXPONENT_BITS, B_MANTISSA_BITS, B_KIND)
    if first == 0 and second == 0:
        return 0
    if first == NAN or second == NAN:
        return NAN
    if (first == 0 or second == 0) and product_is_zero(x, y, first, second):
        return NAN
    return NEGATIVE if product_sign(x, y) == 1 else POSITIVE


def product_is_zero(x: int, y: int, first: int, second: int) -> bool:
    """Whether the finite one of two elements is zero."""
    if first == 0:
        return significand(x, A_EXPONENT_BITS, A_MANTISSA_BITS, A_KIND) == 0
    return second == 0 and significand(y, B_EXPONENT_BITS, B_MANTISSA_BITS, B_KIND) == 0
