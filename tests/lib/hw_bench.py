"""RTL test bench: values of many cases in and out of components.

Ports are arrays whose first axis is the case. A structure is a dict of its fields' arrays; an
array in a port adds an axis: the field `sign` of a port `lanes` of 4 structures is (cases, 4).
"""

from typing import Any

import numpy as np
from amaranth.hdl import Shape
from amaranth.lib import data, wiring
from numpy.typing import NDArray

from netlist import Netlist, wiring_value

Planes = list[int]  # one integer per bit of a value, bit j of each belongs to case j


class Evaluator:
    """Calls a component with arrays by its input ports' names: `Evaluator(dut)(a=..., b=...)`.

    Inputs that are not given are 0; outputs come as a dict. A component with registers advances
    by one clock edge with each call.
    """

    def __init__(self, component: wiring.Component) -> None:
        self.netlist = Netlist(component)
        self.shapes = {
            ".".join(map(str, path)): shape_of(value)
            for path, _, value in component.signature.flatten(component)
        }
        self.registers: Planes | None = None

    def __call__(self, **inputs: Any) -> dict[str, Any]:
        n = max(_cases(value) for value in inputs.values())
        ones = (1 << n) - 1
        if self.registers is None:
            self.registers = [-bit & ones for bit in self.netlist.registers]
        planes = {
            name: pack(self.shapes.get(name, Shape(1)), inputs.get(name, 0), n)
            for name in self.netlist.inputs
        }
        unknown = set(inputs) - set(self.netlist.inputs)
        assert not unknown, f"no such inputs: {unknown}"
        outputs, self.registers = self.netlist.step(ones, planes, self.registers)
        return {
            name: unpack(self.shapes[name], outputs.get(name, []), n)
            for name in self.netlist.outputs
        }


def shape_of(value: Any) -> Any:
    """The layout or shape of a port."""
    return value.shape() if isinstance(value, data.View) else wiring_value(value).shape()


def _cases(value: Any) -> int:
    if isinstance(value, dict):
        return max(_cases(v) for v in value.values())
    return np.shape(value)[0] if np.shape(value) else 1


def pack(shape: Any, value: Any, n: int) -> Planes:
    """The bits of n cases of a port of this shape."""
    if isinstance(shape, data.StructLayout):
        value = value if isinstance(value, dict) else dict.fromkeys((f for f, _ in shape), value)
        assert set(value) <= {name for name, _ in shape}, f"{set(value)} are not all in {shape}"
        return [bit for name, field in shape for bit in pack(field.shape, value.get(name, 0), n)]
    if isinstance(shape, data.ArrayLayout):
        elements = range(shape.length)
        if isinstance(value, np.ndarray) and value.ndim == 2 and not _has_parts(shape.elem_shape):
            return to_planes(value, Shape.cast(shape.elem_shape).width)  # all at once
        return [bit for i in elements for bit in pack(shape.elem_shape, _element(value, i), n)]
    return to_planes(np.broadcast_to(np.asarray(value), n), Shape.cast(shape).width)


def _has_parts(shape: Any) -> bool:
    return isinstance(shape, data.StructLayout | data.ArrayLayout)


def _element(value: Any, index: int) -> Any:
    if isinstance(value, dict):
        return {name: _element(v, index) for name, v in value.items()}
    return value[:, index] if np.ndim(value) else value


def unpack(shape: Any, planes: Planes, n: int) -> Any:
    """The values of n cases of a port of this shape."""
    if isinstance(shape, data.StructLayout):
        size = {name: Shape.cast(field.shape).width for name, field in shape}
        return {
            name: unpack(field.shape, planes[field.offset : field.offset + size[name]], n)
            for name, field in shape
        }
    if isinstance(shape, data.ArrayLayout):
        size = Shape.cast(shape.elem_shape).width
        parts = [planes[i * size : (i + 1) * size] for i in range(shape.length)]
        elements = [unpack(shape.elem_shape, part, n) for part in parts]
        return _stack(elements) if elements else np.zeros((n, 0), np.int64)
    cast = Shape.cast(shape)
    return from_planes(planes, n, cast.signed)


def _stack(values: list) -> Any:
    if isinstance(values[0], dict):
        return {name: _stack([v[name] for v in values]) for name in values[0]}
    return np.stack(values, axis=1)


def to_planes(values: NDArray, width: int) -> Planes:
    """The low `width` bits of integer `values`, in two's complement; any width.

    Of an array of two axes those of each column, one column after the other.
    """
    values = values if values.dtype == object else values.astype(np.int64)
    columns = values.T.reshape(-1, len(values))
    limbs = []
    for low in range(0, width, 32):
        limb = ((columns >> low) & 0xFFFFFFFF).astype(np.uint32)
        places = np.arange(min(32, width - low), dtype=np.uint32)
        bits = limb[:, np.newaxis] >> places[:, np.newaxis] & 1
        limbs.append(np.packbits(bits, axis=2, bitorder="little"))
    if not limbs:
        return []
    rows = np.concatenate(limbs, axis=1)  # (columns, width, bytes)
    size, text = rows.shape[2], rows.tobytes()
    return [int.from_bytes(text[at : at + size], "little") for at in range(0, len(text), size)]


def from_planes(planes: Planes, n: int, signed: bool = False) -> NDArray:
    """The integers of n cases: int64 up to 63 bits, Python integers beyond."""
    wide = len(planes) > 63
    kind = object if wide else np.int64
    size = (n + 7) // 8
    buffer = np.frombuffer(b"".join(plane.to_bytes(size, "little") for plane in planes), np.uint8)
    rows = buffer.reshape(len(planes), size)
    bits = np.unpackbits(rows, axis=1, count=n, bitorder="little").astype(kind)
    weights = [1 << place for place in range(len(planes))]
    if signed and planes:
        weights[-1] = -weights[-1]
    return np.array(weights, kind) @ bits


def differing(got: Any, want: Any) -> NDArray:
    """The cases in which two dicts or arrays of results differ."""
    if isinstance(want, dict):
        wrong = [differing(got[name], value) for name, value in want.items()]
        return np.unique(np.concatenate(wrong))
    unequal = np.asarray(got) != np.asarray(want)
    return np.flatnonzero(unequal.any(axis=tuple(range(1, unequal.ndim))))


def assert_same(got: Any, want: Any, **operands: NDArray) -> None:
    """Fail unless got == want in every case, showing the first that differs with its `operands`."""
    wrong = differing(got, want)
    if not len(wrong):
        return
    first = wrong[0]
    lines = [f"{len(wrong)} cases differ; case {first}:"]
    lines += [f"{name} = {_show(value, first)}" for name, value in operands.items()]
    lines += [f"got  {_show(got, first)}", f"want {_show(want, first)}"]
    raise AssertionError("\n".join(lines))


def _show(value: Any, case: int) -> Any:
    if isinstance(value, dict):
        return {name: _show(v, case) for name, v in value.items()}
    value = np.asarray(value)[case]
    return value.tolist() if value.ndim else f"{int(value):#x}"
