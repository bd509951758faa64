"""Matrix products of schemes by every accumulator, as `mxdot.model.schemes.matmul`."""

import torch
from torch import Tensor

from ...model.accumulators import Accumulator, Fixed, by_kind, check_known
from ...model.accumulators import accumulator as find_rule
from ...model.blocks import LARGEST_BLOCK
from ...model.errors import integer
from ...model.formats import FLOAT32
from ...model.schemes.operand import Operand, float_operand
from ...model.schemes.products import check_weight_only, scaled_product
from ...model.schemes.regions import check_shapes, split
from .. import checks
from ..chunks import chunk_size
from ..eager import eager
from ..matmul import running_value
from ..rules.products import RULES, tiles
from .operand import check_pair, operand
from .steps import ScaledSteps
from .tensor import ScaledTensor

Cuts = tuple[tuple[int, int], ...]


@eager
def matmul(
    a: ScaledTensor | Tensor,
    b: ScaledTensor,
    accumulator: Accumulator | str,
    c: Tensor | None = None,
    *,
    lanes: int = 128,
) -> Tensor:
    """The float32 (M, N) dot products of the rows of `a` (M, K) and `b` (N, K).

    a: a ScaledTensor, or floats (float32, float16, bfloat16): b is then dequantised to their type
    (weight-only), and the accumulator is ``exact``, a ``fused:F`` or a preset.
    accumulator: an object or its text; ``int32`` takes integer elements. c: running values,
    floats that are float32, broadcastable to (M, N); +0 when None. lanes: what stands under one
    scale of each operand is taken at once up to this length (1 to 65536), else in parts of it.
    Raises TypeError or ValueError, naming the argument, before any work.
    """
    rule = check_known(find_rule(accumulator))
    lanes = integer("lanes", lanes, 1, LARGEST_BLOCK)
    if not isinstance(b, ScaledTensor):
        raise TypeError(f"b must be a ScaledTensor, not {type(b).__name__}")
    if isinstance(a, ScaledTensor):
        check_pair(a, b)
        start = _running(c, a.codes, b)
        result = scaled_product(a, b, rule, start, lanes, operand, _accumulate)
    else:
        matrix = checks.floats("a", a)
        check_shapes(tuple(matrix.shape), tuple(b.shape))
        checks.same_device(a=matrix, b=b.codes)
        result = _weight_only(matrix, b, rule, _running(c, matrix, b), lanes)
    bits = torch.where(result.isnan(), rule.nan_bits, result.view(torch.int32))
    return bits.view(torch.float32)


def _running(c: Tensor | None, a: Tensor, b: ScaledTensor) -> Tensor:
    shape = a.shape[0], b.shape[0]
    if c is None:
        return torch.zeros(shape, dtype=torch.float32, device=a.device)
    return running_value(c, a, shape)


def _accumulate(
    rule: Accumulator, a: Operand, b: Operand, blocks: Cuts, c: Tensor, width: int = 1
) -> Tensor:
    """What the rule makes of c and the blocks, a tile at a time.

    width: numbers that the rule keeps for each dot product, beside a block's terms.
    """
    terms = rule.step_terms(max(stop - start for start, stop in blocks))
    cuts, longest = split(blocks, terms), max(width, terms)
    result = torch.empty_like(c)
    for rows, columns in tiles(c.shape[0], c.shape[1], max(1, chunk_size(c.device) // longest)):
        steps = ScaledSteps(a, b, rows, columns, cuts)
        result[rows, columns] = by_kind(RULES, rule)(rule, steps, c[rows, columns])
    return result


# Weight-only products ---------------------------------------------------------------------------


def _weight_only(a: Tensor, b: ScaledTensor, rule: Accumulator, c: Tensor, lanes: int) -> Tensor:
    check_weight_only(rule)
    left, right = float_operand(a), float_operand(b.dequantize(a.dtype))
    if not rule.sums_exactly:
        return _accumulate(rule, left, right, split([(0, a.shape[1])], lanes), c)
    register = _register(left, right)
    one_by_one = split([(0, a.shape[1])], 1)
    return _accumulate(register, left, right, one_by_one, c, register.width // 16)


def _register(a: Operand, b: Operand) -> Fixed:
    """One that takes c and every product of the floats whole: its one rounding is the last."""
    # c is a multiple of 2^lsb below 2^top.
    lsb = min(a.lsb + b.lsb, FLOAT32.lsb)
    top = max((a.largest * b.largest).bit_length() + a.lsb + b.lsb, FLOAT32.emax + 1)
    return Fixed(top - lsb + a.shape[1].bit_length() + 2, lsb)
