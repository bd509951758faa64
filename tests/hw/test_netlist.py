"""The netlist evaluator agrees with Amaranth's simulator, and the helpers with NumPy."""

# Components defined here get their attributes while they run.
# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportInvalidTypeForm=false

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from compare import generator
from hw_bench import Evaluator, assert_same, from_planes, to_planes
from mxdot.hw.arithmetic.floats import FloatSum
from mxdot.hw.arithmetic.shift import Normalizer
from mxdot.hw.dot.convert import Convert
from mxdot.hw.dot.lane import ProductLane
from mxdot.model import DotConfig
from mxdot.model.outputs import FLOAT16
from mxdot.model.pipeline.widths import Widths
from netlist import wiring_value
from small_circuits import OPERATORS, Counter, Statements


class Binary(wiring.Component):
    """o = operator(a, b)."""

    def __init__(self, operator, shape_a, shape_b):
        self.operator = operator
        super().__init__({"a": In(shape_a), "b": In(shape_b), "o": Out(signed(12))})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.operator(self.a, self.b))
        return m


def all_pairs(low_a: int, low_b: int) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of a 4-bit and a 3-bit number from these on."""
    a, b = np.meshgrid(np.arange(low_a, low_a + 16), np.arange(low_b, low_b + 8))
    return a.ravel(), b.ravel()


@pytest.mark.parametrize(("low_a", "low_b"), [(0, 0), (-8, 0), (0, -4), (-8, -4)])
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_of_every_pair(name, low_a, low_b):
    shape_a = signed(4) if low_a else 4
    shape_b = signed(3) if low_b else 3
    a, b = all_pairs(low_a, low_b)
    got = Evaluator(Binary(OPERATORS[name], shape_a, shape_b))(a=a, b=b)
    assert_same(got["o"], OPERATORS[name](a, b).astype(int), a=a, b=b)


@pytest.mark.parametrize("low_a", [0, -8])
def test_shifts_by_every_amount(low_a):
    shape = signed(4) if low_a else 4
    a, b = all_pairs(low_a, 0)
    right = Evaluator(Binary(lambda a, b: a >> b, shape, 3))(a=a, b=b)
    left = Evaluator(Binary(lambda a, b: (a << b)[:8].as_signed(), shape, 3))(a=a, b=b)
    assert_same(right["o"], a >> b)
    assert_same(left["o"], ((a << b) + 128) % 256 - 128)


class Parts(wiring.Component):
    """Parts of a value from where another says, beyond its end too."""

    value: In(10)
    negative: In(signed(6))
    offset: In(4)
    bits: Out(3)
    word: Out(3)
    wide: Out(9)
    signed_bits: Out(4)
    signed_word: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            self.bits.eq(self.value.bit_select(self.offset, 3)),
            self.word.eq(self.value.word_select(self.offset, 3)),
            self.wide.eq(self.value[:5].bit_select(self.offset, 9)),
            self.signed_bits.eq(self.negative.bit_select(self.offset, 4)),
            self.signed_word.eq(self.negative.word_select(self.offset, 4)),
        ]
        return m


def simulate(dut, inputs: dict[str, list[int]], clocked: bool = False) -> dict[str, list[int]]:
    """The ports of `dut` as plain integers, case by case, in Amaranth's simulator."""
    ports = {name: wiring_value(getattr(dut, name)) for name in dut.signature.members}
    outputs: dict[str, list[int]] = {name: [] for name in ports if name not in inputs}

    async def bench(ctx):
        for values in zip(*inputs.values(), strict=True):
            for name, value in zip(inputs, values, strict=True):
                ctx.set(ports[name], value)
            if not clocked:
                await ctx.delay(1e-9)
            for name, got in outputs.items():
                got.append(ctx.get(ports[name]))
            if clocked:
                await ctx.tick()

    simulator = Simulator(dut)
    if clocked:
        simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return outputs


WIDE = Widths(DotConfig(formats="e4m3,e5m2,int8xe2m1", lanes=4))


@pytest.mark.parametrize(
    "make",
    [
        Statements,
        Parts,
        lambda: ProductLane(WIDE),
        lambda: FloatSum(24, 31),
        lambda: Normalizer(37, limit_bits=9),
        lambda: Convert(FLOAT16),
    ],
    ids=["statements", "parts", "lane", "float sum", "normalizer", "convert"],
)
def test_a_component_as_in_the_simulator(make):
    rng = generator("netlist")
    dut = make()
    evaluator = Evaluator(dut)
    n = 400
    widths = evaluator.netlist.inputs
    planes = {
        name: [int.from_bytes(rng.bytes(n // 8), "little") for _ in range(width)]
        for name, width in widths.items()
    }
    inputs = {name: from_planes(p, n).tolist() for name, p in planes.items()}
    outputs, _ = evaluator.netlist.step((1 << n) - 1, planes, [])
    dut = make()
    expected = simulate(dut, inputs)
    for name, planes_out in outputs.items():
        is_signed = wiring_value(getattr(dut, name)).shape().signed
        assert from_planes(planes_out, n, is_signed).tolist() == expected[name], name


def test_registers_as_in_the_simulator():
    enables = generator("registers").integers(0, 2, 40)
    evaluator = Evaluator(Counter())
    got = [int(evaluator(en=np.array([en]))["count"][0]) for en in enables]
    assert got == simulate(Counter(), {"en": enables.tolist()}, clocked=True)["count"]
    evaluator(en=np.array([1]), rst=1)
    assert evaluator(en=np.array([0]))["count"] == 5


def test_cases_have_registers_of_their_own():
    evaluator = Evaluator(Counter())
    for _ in range(3):
        evaluator(en=np.array([0, 1, 1]), rst=np.array([0, 0, 1]))
    assert evaluator(en=np.zeros(3, int))["count"].tolist() == [5, 14, 5]


@pytest.mark.parametrize("width", [1, 8, 31, 32, 33, 63, 64, 100])
def test_planes_hold_integers_of_any_width(width):
    rng = generator("planes", width)
    dtype = object if width > 63 else np.int64
    values = np.array([int.from_bytes(rng.bytes(16)) % 2**width for _ in range(77)], dtype)
    planes = to_planes(values, width)
    assert from_planes(planes, 77).tolist() == values.tolist()
    half = 1 << (width - 1)
    negative = [v - 2 * half if v >= half else v for v in values.tolist()]
    assert from_planes(planes, 77, signed=True).tolist() == negative


def test_a_difference_is_shown():
    got = {"x": np.array([1, 2, 3]), "y": np.zeros((3, 2), int)}
    assert_same(got, {"x": np.array([1, 2, 3])})
    with pytest.raises(AssertionError, match="1 cases differ; case 1:\na = 0x7"):
        assert_same(got, {"x": np.array([1, 0, 3])}, a=np.array([6, 7, 8]))


def test_structures_and_arrays_in_ports():
    class Swap(wiring.Component):
        pairs: In(data.ArrayLayout(data.StructLayout({"x": 3, "y": signed(4)}), 2))
        first: Out(data.StructLayout({"y": signed(4), "x": 3}))
        others: Out(data.ArrayLayout(signed(4), 2))

        def elaborate(self, platform):
            m = Module()
            mark = Signal(3)
            m.d.comb += [
                mark.eq(self.pairs[0].x),
                self.first.x.eq(mark),
                self.first.y.eq(self.pairs[0].y),
                self.others[0].eq(self.pairs[1].y),
                self.others[1].eq(self.pairs[1].x),
            ]
            return m

    x = np.array([[1, 2], [3, 4], [5, 6]])
    got = Evaluator(Swap())(pairs={"x": x, "y": -x})
    assert got["first"]["x"].tolist() == [1, 3, 5]
    assert got["first"]["y"].tolist() == [-1, -3, -5]
    assert got["others"].tolist() == [[-2, 2], [-4, 4], [-6, 6]]
    with pytest.raises(AssertionError, match="no such inputs"):
        Evaluator(Swap())(pair=x)
