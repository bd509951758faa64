"""The rules of docs/numerics.md in integer arithmetic, as `mxdot export` writes them.

`program.py` reads this file, gives the parameters below their values, leaves out branches that
these decide, and hands the rest to a printer for each language. The functions are Python too.

Python is restricted to integers, `Wide` integers, truth values and loops over ranges. Operands of
shifts, `//`, `%`, `&` and `|` are not negative; the last statement of a function returns.
"""

from collections.abc import Sequence

Wide = int
"""Integers of WIDE_BITS bits, with a sign; `int` has 64 bits."""
CodesA = Sequence[int]
CodesB = Sequence[int]
Scales = Sequence[int]

# Rules, roundings, classes of special values and flags.
FUSED, ALIGNED, EXACT, TREE = 1, 2, 3, 4
TOWARD_ZERO, NEAREST_EVEN, TO_ODD = 0, 1, 2
FINITE_ONLY, NAN_ONLY, IEEE, FNUZ, INTEGER = 0, 1, 2, 3, 4
NAN, POSITIVE, NEGATIVE = 1, 2, 4
INVALID, OVERFLOW, UNDERFLOW, INEXACT, SATURATED = 1, 2, 4, 8, 16
NOTHING = -16384

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


def rounded(total: Wide, exponent: int, bits: int, least: int, largest: int, mode: int) -> int:
    """total x 2^exponent rounded to a format, as float32 and flags.

    The format has this many fraction bits, and this least and largest exponent.
    """
    magnitude = magnitude_of(total)
    if length(magnitude) == 0:
        return 0
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
    if FLUSH == 1 and is_tiny:
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
        return 0 if FLUSH == 1 else low(code, mantissa_bits)
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


# Steps ------------------------------------------------------------------------------------------


def step_count(block: int) -> int:
    """Steps of a block."""
    if PERMUTED == 1:
        return 2 * ((block + 31) // 32)
    if TERMS == 0:
        return 1
    return (block + TERMS - 1) // TERMS


def step_limit(block: int) -> int:
    """The most elements of a step."""
    if TERMS == 0:
        return block
    if PARTS == 2:
        return TERMS // 2
    return TERMS


def place_of(step: int, i: int) -> int:
    """Place in a block of an element of a step; beyond the block, there is none."""
    if PERMUTED == 1:
        return (step // 2) * 32 + (step % 2) * 2 + (i // 2) * 4 + i % 2
    if TERMS == 0:
        return i
    if PARTS == 2:
        return (step // 2) * TERMS + step % 2 + 2 * i
    return step * TERMS + i


def step_size(block: int, step: int) -> int:
    """Elements of a step."""
    size = 0
    for i in range(step_limit(block)):
        if place_of(step, i) < block:
            size = size + 1
    return size


def step_class(a: CodesA, b: CodesB, start: int, block: int, step: int) -> int:
    """Class of the special products of a step."""
    classes = 0
    for i in range(step_limit(block)):
        place = place_of(step, i)
        if place < block:
            classes = classes | product_class(a[start + place], b[start + place])
    return classes


def step_digit(a: CodesA, b: CodesB, start: int, block: int, step: int) -> int:
    """Largest exponent of the unit digits of products that are not zero; NOTHING without any."""
    largest = NOTHING
    for i in range(step_limit(block)):
        place = place_of(step, i)
        if place < block:
            x = a[start + place]
            y = b[start + place]
            if product(x, y) != 0:
                largest = larger(largest, product_digit(x, y))
    return largest


def step_sum(a: CodesA, b: CodesB, start: int, block: int, step: int, shift: int) -> Wide:
    """Sum of the products times 2^shift, each cut to an integer."""
    total = wide(0)
    for i in range(step_limit(block)):
        place = place_of(step, i)
        if place < block:
            x = a[start + place]
            y = b[start + place]
            term = cut(product(x, y), product_exponent(x, y) + shift, TERM_MODE)
            total = total + with_sign(term, product_sign(x, y))
    return total


def step_loses(a: CodesA, b: CodesB, start: int, block: int, step: int, shift: int) -> bool:
    """Whether a product times 2^shift is no integer."""
    lost = False
    for i in range(step_limit(block)):
        place = place_of(step, i)
        if place < block:
            x = a[start + place]
            y = b[start + place]
            if loses(product(x, y), product_exponent(x, y) + shift):
                lost = True
    return lost


def fused(a: CodesA, b: CodesB, start: int, block: int, step: int, scale: int, c: int) -> int:
    """c and the products of a step on one grid, and their sum rounded."""
    largest = step_digit(a, b, start, block, step) + scale
    if significand_of(c) != 0:
        top = exponent_of(c) + length(wide(significand_of(c))) - 1
        largest = larger(largest, larger(top, LEAST_EXPONENT))
    largest = larger(largest, LEAST)
    if largest < -8192:
        return 0
    shift = FRACTION_BITS - largest
    c_shift = exponent_of(c) + shift
    total = step_sum(a, b, start, block, step, scale + shift)
    total = total + with_sign(cut(significand_of(c), c_shift, TOWARD_ZERO), c >> 31)
    lost = step_loses(a, b, start, block, step, scale + shift)
    lost = lost or loses(significand_of(c), c_shift)
    result = rounded(
        total, 0 - shift, STEP_MANTISSA_BITS, LEAST_EXPONENT, LARGEST_EXPONENT, STEP_MODE
    )
    return result | with_flags(0, INEXACT if lost else 0)


def aligned(a: CodesA, b: CodesB, start: int, block: int, step: int) -> int:
    """Products of a step on one grid, and their sum rounded to float32."""
    largest = step_digit(a, b, start, block, step)
    if largest == NOTHING:
        return 0
    shift = FRACTION_BITS - largest
    lost = step_loses(a, b, start, block, step, shift)
    total = step_sum(a, b, start, block, step, shift)
    return to_float32(total, 0 - shift, BLOCK_MODE) | with_flags(0, INEXACT if lost else 0)


def sum_float32(x: int, y: int) -> int:
    """Sum of two float32 by RNE, with flags."""
    classes = class_of(x) | class_of(y)
    if classes != 0:
        return special(classes)
    return to_float32(placed(x, 0) + placed(y, 0), LOWEST, NEAREST_EVEN)


def tree(a: CodesA, b: CodesB, start: int, count: int) -> int:
    """Products added as float32 numbers, in adjacent pairs, level by level."""
    if count == 1:
        x = a[start]
        y = b[start]
        term = with_sign(wide(product(x, y)), product_sign(x, y))
        return to_float32(term, product_exponent(x, y), NEAREST_EVEN)
    half = 1
    while 2 * half < count:
        half = 2 * half
    left = tree(a, b, start, half)
    right = tree(a, b, start + half, count - half)
    total = sum_float32(low(left, 32), low(right, 32))
    return total | with_flags(0, (left >> 32) | (right >> 32))


def block_result(a: CodesA, b: CodesB, start: int, block: int, step: int) -> int:
    """A step without its scale, as float32, with flags."""
    if RULE == TREE:
        first = place_of(step, 0)
        return tree(a, b, start + first, step_size(block, step))
    return aligned(a, b, start, block, step)


def added(part: int, scale: int, c: int) -> int:
    """c plus the result of a step times 2^scale, with the flags of both."""
    bits = low(part, 32)
    flags = part >> 32
    if class_of(bits) != 0:
        return with_flags(bits, flags)
    total = placed(bits, scale) + placed(c, 0)
    return to_running(total, LOWEST, ADD_MODE) | with_flags(0, flags)


def updated(
    a: CodesA, b: CodesB, start: int, block: int, step: int, scale: int, nan: int, c: int
) -> int:
    """c after a step, with flags."""
    classes = nan | step_class(a, b, start, block, step)
    if OVERFLOW_MEETS_C == 1 and classes == 0:
        classes = class_of(low(block_result(a, b, start, block, step), 32))
        if classes != 0 and class_of(c) == 0:
            return block_result(a, b, start, block, step)
    classes = classes | class_of(c)
    if classes != 0:
        return special(classes)
    if RULE == FUSED:
        return fused(a, b, start, block, step, scale, c)
    if RULE == EXACT:
        total = step_sum(a, b, start, block, step, 0 - PRODUCT_LSB)
        total = (total << (scale + PRODUCT_LSB - LOWEST)) + placed(c, 0)
        return to_running(total, LOWEST, ADD_MODE)
    return added(block_result(a, b, start, block, step), scale, c)


# Dot products -----------------------------------------------------------------------------------


def started(c: int) -> int:
    """A caller's c as a running value, with flags."""
    if class_of(c) != 0:
        return c
    if MANTISSA_BITS < 23 or FLUSH == 1:
        return to_running(with_sign(wide(significand_of(c)), c >> 31), exponent_of(c), NEAREST_EVEN)
    return 0 if low(c, 31) == 0 else c


def finished(c: int, flags: int) -> int:
    """Bits and flags of a result."""
    if class_of(c) == NAN:
        return with_flags(NAN_BITS, flags | INVALID)
    return with_flags(c, flags)


def dot(
    a: CodesA, b: CodesB, scale_a: Scales, scale_b: Scales, blocks: int, block: int, c: int
) -> int:
    """Bits of a dot product of blocks, plus 2^32 times its flags."""
    state = started(c)
    for at in range(blocks):
        scale = scale_a[at] + scale_b[at] - 254
        nan = NAN if scale_a[at] == 255 or scale_b[at] == 255 else 0
        for step in range(step_count(block)):
            if place_of(step, 0) < block:
                current = low(state, 32)
                result = updated(a, b, at * block, block, step, scale, nan, current)
                state = result | with_flags(0, state >> 32)
    return finished(low(state, 32), state >> 32)


def promoted(partial: int, state: int) -> int:
    """A running value plus a partial sum, both with flags."""
    x = low(partial, 32)
    c = low(state, 32)
    flags = with_flags(0, (partial >> 32) | (state >> 32))
    classes = class_of(x) | class_of(c)
    if classes != 0:
        return special(classes) | flags
    return to_running(placed(x, 0) + placed(c, 0), LOWEST, NEAREST_EVEN) | flags


def dot_promoted(
    a: CodesA, b: CodesB, scale_a: Scales, scale_b: Scales, blocks: int, block: int, c: int
) -> int:
    """Bits of a dot product of blocks in partial sums, plus 2^32 times its flags."""
    state = started(c)
    partial = 0
    taken = 0
    for at in range(blocks):
        scale = scale_a[at] + scale_b[at] - 254
        nan = NAN if scale_a[at] == 255 or scale_b[at] == 255 else 0
        for step in range(step_count(block)):
            if place_of(step, 0) < block:
                current = low(partial, 32)
                result = updated(a, b, at * block, block, step, scale, nan, current)
                partial = result | with_flags(0, partial >> 32)
                taken = taken + step_size(block, step)
                if taken >= PROMOTE:
                    state = promoted(partial, state)
                    partial = 0
                    taken = 0
    if taken > 0:
        state = promoted(partial, state)
    return finished(low(state, 32), state >> 32)


# A fixed-point register -------------------------------------------------------------------------


def is_outside(total: Wide) -> bool:
    """Whether a sum is outside the register's range."""
    limit = wide(1) << (REGISTER_BITS - 1)
    return total >= limit or total < wide(0) - limit


def limited(total: Wide) -> Wide:
    """A sum as the register holds it."""
    if not is_outside(total):
        return total
    limit = wide(1) << (REGISTER_BITS - 1)
    if WRAP == 1:
        rest = low_part(total, REGISTER_BITS)
        return rest - (limit << 1) if rest >= limit else rest
    return wide(0) - limit if total < wide(0) else limit - wide(1)


def added_flags(held: Wide, total: Wide, shift: int) -> int:
    """Flags of the addition of total x 2^shift to a register."""
    flags = SATURATED if is_outside(held + in_units(total, shift)) else 0
    return flags | (INEXACT if is_cut(total, shift) else 0)


def dot_fixed(
    a: CodesA, b: CodesB, scale_a: Scales, scale_b: Scales, blocks: int, block: int, c: int
) -> int:
    """Bits of a dot product of blocks in a register, plus 2^32 times its flags."""
    classes = class_of(c)
    held = wide(0)
    flags = 0
    if classes == 0:
        first = with_sign(wide(significand_of(c)), c >> 31)
        shift = exponent_of(c) - REGISTER_LSB
        flags = added_flags(held, first, shift)
        held = limited(in_units(first, shift))
    for at in range(blocks):
        classes = classes | step_class(a, b, at * block, block, 0)
        if scale_a[at] == 255 or scale_b[at] == 255:
            classes = classes | NAN
        if classes == 0:
            total = step_sum(a, b, at * block, block, 0, 0 - PRODUCT_LSB)
            shift = scale_a[at] + scale_b[at] - 254 + PRODUCT_LSB - REGISTER_LSB
            flags = flags | added_flags(held, total, shift)
            held = limited(held + in_units(total, shift))
    if classes != 0:
        return finished(special(classes), flags)
    result = to_float32(held, REGISTER_LSB, NEAREST_EVEN)
    return finished(low(result, 32), flags | (result >> 32))


# Exact sums of groups ---------------------------------------------------------------------------


def grouped(
    a: CodesA,
    b: CodesB,
    scale_a: Scales,
    scale_b: Scales,
    block: int,
    first: int,
    last: int,
    c: int,
) -> int:
    """c after the groups from `first` to `last` - 1, with flags."""
    steps = step_count(block)
    classes = class_of(c)
    largest = LEAST
    if significand_of(c) != 0:
        top = exponent_of(c) + length(wide(significand_of(c))) - 1
        largest = larger(largest, larger(top, -126))
    for i in range(last - first):
        at = (first + i) // steps
        step = (first + i) % steps
        classes = classes | step_class(a, b, at * block, block, step)
        if scale_a[at] == 255 or scale_b[at] == 255:
            classes = classes | NAN
        if step_digit(a, b, at * block, block, step) != NOTHING:
            largest = larger(largest, scale_a[at] + scale_b[at] - 254)
    if classes != 0:
        return special(classes)
    shift = FRACTION_BITS - largest
    c_shift = exponent_of(c) + shift
    lost = loses(significand_of(c), c_shift)
    total = with_sign(cut(significand_of(c), c_shift, TOWARD_ZERO), c >> 31)
    for i in range(last - first):
        at = (first + i) // steps
        step = (first + i) % steps
        group = step_sum(a, b, at * block, block, step, 0 - PRODUCT_LSB)
        move = scale_a[at] + scale_b[at] - 254 + PRODUCT_LSB + shift
        lost = lost or is_cut(group, move)
        total = total + in_units(group, move)
    result = to_float32(total, 0 - shift, TOWARD_ZERO)
    return result | with_flags(0, INEXACT if lost else 0)


def dot_grouped(
    a: CodesA, b: CodesB, scale_a: Scales, scale_b: Scales, blocks: int, block: int, c: int
) -> int:
    """Bits of a dot product of blocks, groups aligned together, plus 2^32 times its flags."""
    state = started(c)
    groups = blocks * step_count(block)
    first = 0
    last = 0
    taken = 0
    while first < groups:
        taken = 0
        while last < groups and taken < TOGETHER:
            taken = taken + step_size(block, last % step_count(block))
            last = last + 1
        result = grouped(a, b, scale_a, scale_b, block, first, last, low(state, 32))
        state = result | with_flags(0, state >> 32)
        first = last
    return finished(low(state, 32), state >> 32)


# Sums cut downwards -----------------------------------------------------------------------------


def step_high(a: CodesA, b: CodesB, start: int, block: int, step: int, scale: int) -> int:
    """Class of the products times 2^scale that are beyond float32."""
    classes = 0
    for i in range(step_limit(block)):
        place = place_of(step, i)
        if place < block:
            x = a[start + place]
            y = b[start + place]
            top = product_exponent(x, y) + scale + length(wide(product(x, y))) - 1
            if product(x, y) != 0 and top >= 128:
                classes = classes | (NEGATIVE if product_sign(x, y) == 1 else POSITIVE)
    return classes


def part_digit(a: CodesA, b: CodesB, start: int, block: int, step: int, scale: int) -> int:
    """Largest exponent of a part of a step; far below every c for a part of zeros."""
    top = step_digit(a, b, start, block, step)
    return -298 if top == NOTHING else top + scale


def part_sum(a: CodesA, b: CodesB, start: int, block: int, step: int) -> Wide:
    """Sum of the products of a part, on the grid of its largest exponent."""
    top = step_digit(a, b, start, block, step)
    if top == NOTHING:
        return wide(0)
    return step_sum(a, b, start, block, step, FRACTION_BITS - top)


def part_loses(a: CodesA, b: CodesB, start: int, block: int, step: int) -> bool:
    """Whether the grid of a part cuts a product."""
    top = step_digit(a, b, start, block, step)
    return top != NOTHING and step_loses(a, b, start, block, step, FRACTION_BITS - top)


def joined(total: Wide, largest: int, lost: bool, c: int) -> int:
    """c plus total x 2^(largest - FRACTION_BITS), cut downwards, with flags."""
    top = -126
    if significand_of(c) != 0:
        top = larger(exponent_of(c) + length(wide(significand_of(c))) - 1, -126)
    grid = larger(largest, top)
    shift = largest - FRACTION_BITS + SUM_BITS + 1 - grid
    own = with_sign(wide(significand_of(c)), c >> 31)
    c_shift = exponent_of(c) + FRACTION_BITS - grid
    is_inexact = lost or is_cut(total, shift) or is_cut(own, c_shift)
    both = floor_units(total, shift)
    if not (PARTS == 2 and top < largest - FRACTION_BITS - 1):
        both = both + (floor_units(own, c_shift) << (SUM_BITS + 1 - FRACTION_BITS))
    exponent = grid - SUM_BITS - 1
    place = larger(exponent + length(magnitude_of(both)) - 1, -126) - SUM_BITS
    is_inexact = is_inexact or is_cut(both, exponent - place)
    result = to_float32(floor_units(both, exponent - place), place, NEAREST_EVEN)
    return result | with_flags(0, INEXACT if is_inexact else 0)


def floored(
    a: CodesA, b: CodesB, start: int, block: int, step: int, scale: int, nan: int, c: int
) -> int:
    """c after a step, with flags."""
    classes = nan
    high = 0
    largest = NOTHING
    for part in range(PARTS):
        each = PARTS * step + part
        classes = classes | step_class(a, b, start, block, each)
        high = high | step_high(a, b, start, block, each, scale)
        largest = larger(largest, part_digit(a, b, start, block, each, scale))
    classes = classes | class_of(c)
    if classes == 0 and high != 0:
        return special(high) | with_flags(0, OVERFLOW | INEXACT)
    if classes != 0:
        return special(classes | high)
    total = wide(0)
    lost = False
    for part in range(PARTS):
        each = PARTS * step + part
        move = part_digit(a, b, start, block, each, scale) - largest
        sum_of_part = part_sum(a, b, start, block, each)
        lost = lost or part_loses(a, b, start, block, each) or is_cut(sum_of_part, move)
        total = total + floor_units(sum_of_part, move)
    return joined(total, largest, lost, c)


def dot_floored(
    a: CodesA, b: CodesB, scale_a: Scales, scale_b: Scales, blocks: int, block: int, c: int
) -> int:
    """Bits of a dot product of blocks, sums cut downwards, plus 2^32 times its flags."""
    state = started(c)
    for at in range(blocks):
        scale = scale_a[at] + scale_b[at] - 254
        nan = NAN if scale_a[at] == 255 or scale_b[at] == 255 else 0
        for step in range(step_count(block)):
            result = floored(a, b, at * block, block, step, scale, nan, low(state, 32))
            state = result | with_flags(0, state >> 32)
    return finished(low(state, 32), state >> 32)
