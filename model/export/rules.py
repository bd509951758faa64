"""The rules of docs/numerics.md in integer arithmetic, as `mxdot export` writes them.

`program.py` reads this file and `numbers.py`, gives the parameters their values, leaves out
branches that these decide, and hands the rest to a printer for each language. The functions are
Python too.
"""

from collections.abc import Sequence

from .numbers import (
    ADD_MODE,
    BLOCK_MODE,
    CHAINS,
    EXACT,
    FLOORED,
    FLUSH,
    FRACTION_BITS,
    FROM_C,
    FUSED,
    INEXACT,
    INVALID,
    LARGEST_EXPONENT,
    LEAST,
    LEAST_EXPONENT,
    LOWEST,
    MANTISSA_BITS,
    NAN,
    NAN_BITS,
    NEAREST_EVEN,
    NEGATIVE,
    NOTHING,
    OVERFLOW,
    OVERFLOW_MEETS_C,
    PARTS,
    PERMUTED,
    POSITIVE,
    PRODUCT_LSB,
    PROMOTE,
    REGISTER_BITS,
    REGISTER_LSB,
    RULE,
    SATURATED,
    STEP_MANTISSA_BITS,
    STEP_MODE,
    SUM_BITS,
    TERM_MODE,
    TERMS,
    TOGETHER,
    TOWARD_ZERO,
    TREE,
    WRAP,
    Wide,
    class_of,
    cut,
    exponent_of,
    floor_units,
    in_units,
    is_cut,
    larger,
    length,
    loses,
    low,
    low_part,
    magnitude_of,
    placed,
    product,
    product_class,
    product_digit,
    product_exponent,
    product_sign,
    rounded,
    significand_of,
    special,
    to_float32,
    to_running,
    wide,
    with_flags,
    with_sign,
)

CodesA = Sequence[int]
CodesB = Sequence[int]
Scales = Sequence[int]

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
    if RULE == FLOORED:
        return floored(a, b, start, block, step, scale, nan, c)
    if RULE == CHAINS:
        return chained(a, b, start, block, step, scale, nan, c)
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
    if MANTISSA_BITS < 23 or FLUSH != 0:
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


# Chains of fused multiply-adds ------------------------------------------------------------------


def joined_product(a: CodesA, b: CodesB, place: int, scale: int, state: int) -> int:
    """A float32 plus a product times 2^scale, rounded once, with the flags of both."""
    bits = low(state, 32)
    flags = with_flags(0, state >> 32)
    x = a[place]
    y = b[place]
    classes = class_of(bits) | product_class(x, y)
    if classes != 0:
        return special(classes) | flags
    term = wide(product(x, y)) << (product_exponent(x, y) + scale - LOWEST)
    total = placed(bits, 0) + with_sign(term, product_sign(x, y))
    return to_float32(total, LOWEST, NEAREST_EVEN) | flags


def joined_sum(x: int, scale: int, state: int) -> int:
    """A float32 plus the float32 x times 2^scale, rounded once, with the flags of all."""
    bits = low(state, 32)
    flags = with_flags(0, (state >> 32) | (x >> 32))
    classes = class_of(bits) | class_of(low(x, 32))
    if classes != 0:
        return special(classes) | flags
    total = placed(bits, 0) + placed(low(x, 32), scale)
    return to_float32(total, LOWEST, NEAREST_EVEN) | flags


def chained(
    a: CodesA, b: CodesB, start: int, block: int, step: int, scale: int, nan: int, c: int
) -> int:
    """c after a step, with flags; without flags where c or a product is special."""
    classes = nan | step_class(a, b, start, block, step) | class_of(c)
    if nan != 0:
        return special(nan)
    result = chains(a, b, start, block, step, scale, c)
    return low(result, 32) if classes != 0 else result


def chains(a: CodesA, b: CodesB, start: int, block: int, step: int, scale: int, c: int) -> int:
    """c after a step under a finite scale, with flags."""
    size = step_size(block, step)
    first = start + step * TERMS
    state = c
    if FROM_C == 1:
        for i in range(size):
            state = joined_product(a, b, first + size - 1 - i, scale, state)
        return state
    even = 0
    odd = 0
    for i in range(size):
        if i % 2 == 0:
            even = joined_product(a, b, first + i, 0, even)
        else:
            odd = joined_product(a, b, first + i, 0, odd)
    return joined_sum(joined_sum(odd, 0, even), scale, state)


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
