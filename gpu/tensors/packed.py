"""PackedTensor: a matrix of codes of fewer than 8 bits without gaps, as weights are kept."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from ...model.errors import choice
from ...model.packing import pack_rows
from .. import checks, executors
from ..names import named_format, named_scheme
from ..operators import operator
from .container import CLASSES, Container, along
from .mx import MXTensor
from .packed_values import PackedValues
from .scaled import ScaledTensor
from .unpack import Unpacking

BYTE = 8
KINDS = MXTensor.__name__, ScaledTensor.__name__  # whose codes can be packed


class PackedTensor(Container):
    """The codes of an MXTensor or a ScaledTensor (N, K), packed; made by `pack_codes`.

    packed: uint8 (N, bytes of a row), code 0 in the lowest bits, every row from a whole byte on.
    Its other parts, and its facts after the first, are those of the container that `unpack` gives.
    """

    packed: Tensor

    def __new__(
        cls, parts: dict[str, Tensor], facts: tuple[Any, ...], shape: Sequence[int]
    ) -> "PackedTensor":
        return cls.wrapper(shape, parts["packed"].device)

    def __init__(
        self, parts: dict[str, Tensor], facts: tuple[Any, ...], shape: Sequence[int]
    ) -> None:
        parts = {"packed": parts["packed"], **parts}  # the codes first, as everywhere
        self.part_names, self.own_facts = tuple(parts), facts
        for name, part in parts.items():  # each an attribute: PyTorch knows parts by those
            setattr(self, name, part)

    def named_parts(self) -> dict[str, Tensor]:
        return {name: getattr(self, name) for name in self.part_names}

    def facts(self) -> tuple[Any, ...]:
        return self.own_facts

    @classmethod
    def made_of(
        cls, parts: dict[str, Tensor], facts: tuple[Any, ...], shape: Sequence[int]
    ) -> "PackedTensor":
        return cls(parts, facts, shape)

    def unpack(self) -> MXTensor | ScaledTensor:
        """The container with a code to each byte."""
        parts = self.named_parts()
        bits = code_bits(self.own_facts)
        return self._of_codes(_unpack(parts["packed"], bits, self.shape[1]))

    def dequantize(
        self, dtype: torch.dtype = torch.float32, *, executor: str | None = None
    ) -> Tensor:
        """Values as the unpacked container gives them. executor: ``torch`` or ``triton``, as in
        `quantize`."""
        checks.float_dtype("dtype", dtype)
        kind, name, *sizes = self.own_facts
        return _dequantize(self.parts(), kind, name, sizes, list(self.shape), dtype, executor)

    def check(self) -> None:
        choice("kind of codes", self.own_facts[0], KINDS)
        bits = code_bits(self.own_facts)
        packed = checks.uint8("packed", self.named_parts()["packed"])
        if self.ndim != 2:
            raise ValueError(f"codes must be a matrix, not of shape {tuple(self.shape)}")
        rows, length = self.shape
        want = rows, -(-length * bits // BYTE)
        if tuple(packed.shape) != want:
            raise ValueError(
                f"packed must have shape {want} for {rows} x {length} codes of {bits} bits, not "
                f"{tuple(packed.shape)}"
            )
        self.unpack().check()

    def cut(self, dim: int, start: int, stop: int) -> "PackedTensor":
        bits, length = code_bits(self.own_facts), self.shape[1]
        where = slice(start, stop)
        if dim == 1:
            if start * bits % BYTE or (stop * bits % BYTE and stop != length):
                raise ValueError(
                    f"a slice along axis 1 must be of whole bytes of {bits}-bit codes, not "
                    f"{start} to {stop}"
                )
            where = slice(start * bits // BYTE, -(-stop * bits // BYTE))
        others = self._shell().cut(dim, start, stop)
        parts = {**others.named_parts(), "packed": along(self.named_parts()["packed"], dim, where)}
        del parts["codes"]
        return PackedTensor(parts, (self.own_facts[0], *others.facts()), others.shape)

    def shared(self, dim: int) -> set[str]:
        return self._shell().shared(dim)

    def _shell(self) -> Any:
        """The unpacked container with one code for all, which takes no memory."""
        return self._of_codes(self.named_parts()["packed"].new_zeros(()).expand(self.shape))

    def _of_codes(self, codes: Tensor) -> Any:
        kind, *facts = self.own_facts
        others = {name: part for name, part in self.named_parts().items() if name != "packed"}
        return CLASSES[kind].made_of({"codes": codes, **others}, tuple(facts), self.shape)


def pack_codes(x: MXTensor | ScaledTensor) -> PackedTensor | MXTensor | ScaledTensor:
    """`x` (N, K) with its codes packed; `x` itself where a code fills whole bytes."""
    facts = type(x).__name__, *x.facts()
    bits = code_bits(facts)
    if bits >= BYTE:
        return x
    codes, *others = x.named_parts().items()
    return PackedTensor({"packed": _pack(codes[1], bits), **dict(others)}, facts, x.shape)


def pack_rows_of(codes: Tensor, bits: int) -> Tensor:
    """Pack codes (N, K) of `bits` bits; codes of whole bytes stay as they are."""
    return codes if bits >= BYTE else _pack(codes, bits)


def unpack_rows_of(packed: Tensor, bits: int, length: int) -> Tensor:
    """The inverse of `pack_rows_of`: codes (N, `length`)."""
    return packed if bits >= BYTE else _unpack(packed, bits, length)


def described(
    x: MXTensor | ScaledTensor | PackedTensor,
) -> tuple[list[Tensor], str, str, list[int], bool]:
    """Parts of codes; their kind, their format or scheme by name, and sizes, as the unpacked ones
    have them; and whether they are packed. torch.compile traces what is read here."""
    if isinstance(x, PackedTensor):
        kind, name, *sizes = x.own_facts
        return x.parts(), kind, name, sizes, True
    if isinstance(x, MXTensor):
        return x.parts(), MXTensor.__name__, x.format_name, [x.block_size, x.axis, x.padding], False
    return x.parts(), ScaledTensor.__name__, x.scheme_name, [x.axis], False


def from_description(
    parts: list[Tensor], kind: str, name: str, sizes: list[int], packed: bool, shape: Sequence[int]
) -> MXTensor | ScaledTensor | PackedTensor:
    """The codes that `described` describes."""
    if packed:
        by_name = dict(zip(_part_names(kind, name), parts, strict=True))
        return PackedTensor(by_name, (kind, name, *sizes), shape)
    if kind == MXTensor.__name__:
        block_size, axis, padding = sizes
        return MXTensor.of_valid_codes(*parts, named_format(name), block_size, axis, padding)
    return ScaledTensor.of_parts(name, parts, sizes[0])


def _part_names(kind: str, name: str) -> list[str]:
    """Names of the parts of packed codes, in order."""
    if kind == MXTensor.__name__:
        return ["packed", "scales"]
    scheme = named_scheme(name)
    scales = [f"scales_{i}" for i in range(len(scheme.levels))]
    others = {"zero_points": scheme.zero_point, "selectors": len(scheme.elements) > 1}
    return ["packed", *scales, *(part for part, there in others.items() if there)]


def code_bits(facts: tuple[Any, ...]) -> int:
    """Bits per code of a container with this kind and these facts."""
    kind, name, *_ = facts
    if kind == MXTensor.__name__:
        return named_format(name).bits
    return named_scheme(name).elements[0].bits


def _fake_pack(codes: Tensor, bits: int) -> Tensor:
    rows, length = codes.shape
    return codes.new_empty((rows, (length * bits + BYTE - 1) // BYTE))


@operator("pack_codes", _fake_pack)
def _pack(codes: Tensor, bits: int) -> Tensor:
    return pack_rows(codes, bits).contiguous()


def _fake_unpack(packed: Tensor, bits: int, length: int) -> Tensor:
    return packed.new_empty((packed.shape[0], length))


@operator("unpack_codes", _fake_unpack)
def _unpack(packed: Tensor, bits: int, length: int) -> Tensor:
    if not prod(packed.shape):
        return packed.new_empty((len(packed), length))
    return executors.run(executors.UNPACK, None, Unpacking(packed.contiguous(), bits, length))


def _fake_values(parts: list[Tensor], *facts: Any) -> Tensor:
    *_, shape, dtype, _ = facts
    return parts[0].new_empty(shape, dtype=dtype)


@operator("packed_values", _fake_values)
def _dequantize(
    parts: list[Tensor],
    kind: str,
    name: str,
    sizes: list[int],
    shape: list[int],
    dtype: torch.dtype,
    executor: str | None,
) -> Tensor:
    x = from_description(parts, kind, name, sizes, True, shape)
    assert isinstance(x, PackedTensor)
    return executors.run(executors.PACKED_VALUES, executor, PackedValues(x, dtype, executor))
