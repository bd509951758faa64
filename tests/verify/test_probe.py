"""The probe: it recovers what the model computes, and says what is broken in units that differ."""

import json
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from command_line import refusal, run
from compare import FULL, some
from mxdot.model import E5M2, MACHINES, PRESETS, ElementFormat, Preset, TableFormat
from mxdot.verify.probe import ModelUnit, probe
from mxdot.verify.probe.black_boxes import Reordered

ROWS = 48
FP16 = PRESETS["hopper-fp16"]

# Accumulator, formats and lanes; and what the probe calls it where that is not its own name.
RECOVERED = [
    # By their own operands test_names_every_machine has them.
    *some(((name, "e5m2", 32, None) for name in PRESETS), 5),
    *some(
        [
            ("hopper", "e4m3", 32, None),
            ("hopper", "e5m2xe4m3", 32, None),
            ("hopper", "e2m1", 32, None),
            ("ada", "e4m3xe5m2", 32, None),
            ("exact", "e5m2", 32, None),
            ("exact", "e4m3", 8, None),
            ("float32", "e5m2", 32, None),
            ("float32", "e4m3", 128, None),
            ("int32", "int8", 32, None),
            ("aligned:0", "e5m2", 32, None),
            ("aligned:13", "e4m3", 16, None),
            ("aligned:30", "e4m3", 64, None),
            ("aligned:62", "e5m2", 4, None),
            ("aligned:10", "int8", 32, None),
            ("fused:0", "e5m2", 8, None),
            ("fused:13", "e5m2", 128, None),
            ("fused:25", "e4m3", 4, None),
            ("fused:40", "e5m2", 16, None),
            ("fixed:48:-20", "e5m2", 32, None),
            ("fixed:24:-10", "e4m3", 16, None),
            ("fixed:20:-8:wrap", "e4m3", 8, None),
        ],
        2,
    ),
    *some(
        [
            ("rvbna:8", "e5m2", 32, None),
            ("rvbna:4:7", "e5m2", 16, None),
            ("rvbna:32:0", "e4m3", 64, None),
            ("rvbna:16", "e2m1", 32, None),
            ("rvbna:2", "bf16", 4, None),
        ],
        1,
    ),
    ("fixed:640:-300", "e5m2", 32, "fixed:512:-256"),  # any register that holds everything
]


@pytest.mark.parametrize(("text", "formats", "lanes", "called"), RECOVERED)
def test_recovers(text, formats, lanes, called):
    report = probe(ModelUnit(text, formats, lanes), rows=ROWS)
    assert report.fits[0].text == (called or text)
    assert report.fits[0].tried >= 6 * ROWS
    assert report.nearest is None


@pytest.mark.parametrize(
    ("text", "terms", "fraction_bits", "result_bits", "promote", "joins"),
    [
        ("hopper", 32, 13, 13, None, "inside"),
        ("hopper-promoted", 32, 13, 13, 128, "after"),
        ("hopper-mx", 32, 13, 13, 32, "after"),
        ("hopper-fp16", 16, 25, 23, None, "inside"),
        ("ada", 16, 13, 13, None, "inside"),
        ("blackwell", 32, 25, 23, None, "inside"),
        ("aligned:13", 32, 13, 23, 32, "after"),
        ("fused:7", 32, 7, 23, None, "inside"),
    ],
)
def test_findings_are_the_parameters(text, terms, fraction_bits, result_bits, promote, joins):
    findings = probe(ModelUnit(text), rows=ROWS).findings
    assert (findings.grid, findings.cut, findings.order) == ("relative", "RZ", "together")
    assert (findings.terms, findings.fraction_bits) == (terms, fraction_bits)
    assert (findings.result_bits, findings.promote, findings.c_joins) == (
        result_bits,
        promote,
        joins,
    )
    assert (findings.largest_from, findings.subnormals) == ("unit digit", "unit digit")
    assert findings.zero_counts is False
    assert findings.c_rounding == ("RNE" if joins == "after" else "RZ")
    assert findings.nan == (0x7FFFFFFF if text in PRESETS else 0x7FC00000)
    assert (findings.inf, findings.minus_zero) == (0x7F800000, 0)


@pytest.mark.parametrize(
    "text", some(["hopper-promoted", "hopper", "hopper-fp16", "aligned:30"], 3)
)
def test_recovers_without_c(text):
    unit = ModelUnit(text)
    unit.takes_c = False
    assert probe(unit, rows=ROWS).fits[0].text == text


ALIKE = {machine.rule: name for name, machine in reversed(MACHINES.items())}


@pytest.mark.parametrize("name", some(ALIKE.values(), 3))
def test_names_every_machine(name):
    """By operands of its own; machines of one rule are named together, and none of another."""
    machine = MACHINES[name]
    report = probe(ModelUnit(name, machine.operands[0]), rows=ROWS)
    named = {fit.text for fit in report.fits} | set(report.alike)
    assert report.fits[0].text == name
    same = {other.name for other in MACHINES.values() if other.rule == machine.rule}
    assert same <= named
    # FP16 elements do not reach the least exponents of BF16 and TF32.
    others = {MACHINES[other].rule for other in named & set(MACHINES)} - {machine.rule}
    assert all(rule.startswith(machine.rule) for rule in others)


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        *some(product(("float16", "bfloat16", "fused:9:bfloat16"), ("e4m3", "e5m2", "fp16")), 2),
        *some([("aligned:13:float16", "e4m3"), ("fused:10:float16", "e4m3")], 2),
        ("float16", "bf16xint4"),
    ],
)
def test_recovers_running_values_of_16_bits(text, pair):
    assert text in [fit.text for fit in probe(ModelUnit(text, pair), rows=ROWS).fits]


def test_machines_that_fp8_does_not_tell_apart(capsys):
    status, out, _ = run(
        capsys, "probe", "--unit", "blackwell-bf16", "--format", "e5m2", "--rows", "16"
    )
    assert status == 0
    same = "blackwell-fp16, rtx50-fp16, hopper-bf16, blackwell-bf16, rtx50-bf16"
    assert f"\nnot told apart by e5m2xe5m2: {same}\n" in out
    status, out, _ = run(capsys, "probe", "--unit", "cdna3-xf32", "--rows", "16")
    assert status == 0
    assert out.startswith("cdna3-xf32, tf32xtf32\n")


def test_a_machine_without_a_name_is_described():
    machine = Preset(
        name="x", terms=8, fraction_bits=19, result_bits=17, nan=0x7FFFFFFF, source="test"
    )
    report = probe(ModelUnit(machine), rows=ROWS)
    assert [fit.text for fit in report.fits] == [machine.rule]


@pytest.mark.parametrize("seed", some([0, 1], 2))
def test_recovers_the_places_of_steps(seed):
    """Elements that a kernel permutes before they reach the unit."""
    places = np.random.default_rng(seed).permutation(32)
    report = probe(Reordered(ModelUnit(FP16), np.argsort(places).tolist()), rows=ROWS)
    assert [fit.text for fit in report.fits] == ["hopper-fp16"]
    assert report.places is not None
    steps = [set(report.places[i : i + 16]) for i in (0, 16)]
    assert steps == [set(places[:16].tolist()), set(places[16:].tolist())]


# Units that are none of the model's -------------------------------------------------------------


class Machine:
    """`hopper` in float64, written for this test, with one rule to be broken."""

    name = "machine"
    formats: tuple[ElementFormat, ElementFormat] = (E5M2, E5M2)
    multiple = 32
    takes_c = True

    def __init__(self, **broken: object) -> None:
        self.cut: Callable[[NDArray], NDArray] = np.trunc
        self.result: Callable[[NDArray], NDArray] = np.trunc
        self.zero_counts = self.leading = self.flush = False
        self.nan = 0x7FFFFFFF
        vars(self).update(broken)

    def __call__(self, a: NDArray, b: NDArray, c: NDArray | None) -> NDArray[np.uint32]:
        total = np.zeros(len(a)) if c is None else c.astype(np.float64) + 0.0
        with np.errstate(invalid="ignore", over="ignore"):
            for start in range(0, a.shape[1], 32):
                total = self.step(total, a[:, start : start + 32], b[:, start : start + 32])
            bits = total.astype(np.float32).view(np.uint32)
        return np.where(np.isnan(total), np.uint32(self.nan), bits)

    def step(self, c: NDArray, a: NDArray, b: NDArray) -> NDArray[np.float64]:
        x, y = (self.elements(codes) for codes in (a, b))
        product = x * y
        unit = self.unit(x) + self.unit(y)
        if self.leading:
            unit = np.where(product == 0, unit, np.frexp(product)[1] - 1)
        if not self.zero_counts:
            unit = np.where(product == 0, -4096, unit)
        top = np.maximum(np.where(c == 0, -126, np.frexp(c)[1] - 1), -126)
        grid = np.ldexp(1.0, np.maximum(unit.max(axis=1, initial=-4096), top) - 13)
        terms = self.cut(product / grid[:, None]).sum(axis=1) + self.cut(c / grid)
        # 13 fraction bits of the result, and no finer than float32's subnormals have them.
        total = terms * grid
        place = np.ldexp(1.0, np.maximum(np.frexp(total)[1] - 1, -126) - 13)
        kept = self.result(total / place) * place
        kept = np.where(np.abs(kept) >= 2.0**128, np.copysign(np.inf, kept), kept)
        exact = product.sum(axis=1) + c  # special values
        return np.where(np.isfinite(product).all(axis=1) & np.isfinite(c), kept, exact) + 0.0

    def elements(self, codes: NDArray) -> NDArray[np.float64]:
        values = E5M2.values[codes]
        return np.where(np.abs(values) < 2.0**-14, 0.0, values) if self.flush else values

    def unit(self, values: NDArray) -> NDArray[np.int64]:
        finite = np.where(np.isfinite(values), values, 0.0)
        return np.maximum(np.where(finite == 0, -14, np.frexp(finite)[1] - 1), -14)


def test_the_unbroken_machine_is_hopper():
    report = probe(Machine())
    assert [fit.text for fit in report.fits] == ["hopper"]


BROKEN = {
    "cut: RNE, where hopper has RZ": {"cut": np.rint},
    "cut: floor, where hopper has RZ": {"cut": np.floor},
    "result rounding: RNE, where hopper has RZ": {"result": np.rint},
    "zero counts: True, where hopper has False": {"zero_counts": True},
    "largest from: leading digit, where hopper has unit digit": {"leading": True},
    "subnormals: flushed, where hopper has unit digit": {"flush": True},
}


@pytest.mark.parametrize("violation", BROKEN)
def test_names_the_broken_rule(violation):
    report = probe(Machine(**BROKEN[violation]), rows=256 if FULL else ROWS)
    assert not report.fits
    assert report.nearest is not None
    assert report.nearest.accumulator == PRESETS["hopper"]
    assert report.nearest.total > 0
    assert violation in report.violations
    assert "fits none of the model's; nearest: hopper" in "\n".join(report.lines())


def test_another_nan_is_another_machine():
    report = probe(Machine(nan=0x7FC00000), rows=ROWS)
    assert report.findings.nan == 0x7FC00000
    assert [fit.text for fit in report.fits] == [PRESETS["hopper"].rule]
    assert PRESETS["hopper"] not in [fit.accumulator for fit in report.fits]


def test_more_bits_than_products_show():
    """A c beyond every product tells F = 64 from the 62 bits that E5M2 products span."""
    assert [fit.text for fit in probe(ModelUnit("fused:64")).fits] == ["fused:64"]


def test_one_wrong_bit_in_random_data_is_no_fit():
    """Deviation that no experiment asks: results of few exponents have their last bit set."""

    class Flips(ModelUnit):
        def __call__(self, a, b, c):
            bits = super().__call__(a, b, c)
            return bits ^ ((bits & 0x7F803FFF) == 0x40000C00).astype(np.uint32)

    report = probe(Flips("blackwell", "e4m3"), rows=4096)
    assert not report.fits
    assert report.nearest is not None
    example = report.nearest.example
    assert example is not None
    assert int(example["unit"], 16) ^ int(example["model"], 16) == 1
    assert report.nearest.accumulator == PRESETS["blackwell"]


def test_terms_added_in_turn():
    """A chain of float32 additions, which is no accumulator of the model."""

    class Chain(ModelUnit):
        def __call__(self, a, b, c):
            total = np.zeros(len(a), np.float32) if c is None else c + np.float32(0)
            with np.errstate(invalid="ignore", over="ignore"):
                for x, y in zip(E5M2.decode(a).T, E5M2.decode(b).T, strict=True):
                    total = total + x * y
            return np.where(np.isnan(total), np.uint32(0x7FC00000), total.view(np.uint32))

    report = probe(Chain("float32"), rows=ROWS)
    assert report.findings.order == "in turn"
    assert not report.fits
    assert list(report.lines())[-1] == "fits none of the model's"


# Command line -----------------------------------------------------------------------------------


def test_prints_a_report(capsys):
    status, out, _ = run(capsys, "probe", "--unit", "ada", "--rows", "16")
    assert status == 0
    assert out.startswith("ada, e5m2xe5m2\n")
    assert "\n  terms              16\n" in out
    assert "\nfits: ada in blocks of 32 (0 of 192 random dot products differ)\n" in out


def test_writes_json(capsys, tmp_path):
    file = tmp_path / "report.json"
    options = ["--format", "e4m3", "--lanes", "8", "--rows", "16", "--json", "-o", str(file)]
    assert run(capsys, "probe", "--unit", "aligned:9", *options) == (0, "", "")
    report = json.loads(file.read_text())
    assert report["unit"] == "aligned:9"
    assert report["formats"] == "e4m3xe4m3"
    assert report["findings"]["fraction_bits"] == 9
    assert report["fits"][0]["accumulator"] == "aligned:9"
    assert report["fits"][0]["block"] == 8
    assert report["nearest"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--unit tesla", "accumulator must be one of exact, aligned:F"),
        ("--unit hopper --lanes 3", "lanes must be one of 4, 8, 16, 32, 64, 128, not 3"),
        ("--unit hopper --rows 0", "rows must be from 1 to 1000000, not 0"),
        ("--unit hopper --seed=-1", "seed must be at least 0, not -1"),
        ("--unit hopper --format e9m9", "formats must be one of e4m3"),
        ("--unit hopper --format e4m3,e5m2", "formats of a probed unit must be one pair"),
        ("--unit int32 --format e4m3", "accumulator int32 takes integer formats only"),
        ("--unit hopper --lanes 48", "lanes must be one of 4, 8, 16, 32, 64, 128, not 48"),
        (
            "--unit aligned:8 --format p3109_k8p1se",
            "format must have the element 5.42101e-20 for a probe, not p3109_k8p1se",
        ),
        (
            "--unit aligned:8 --format p3109_k3p1uf",
            "format must have the element -4 for a probe, not p3109_k3p1uf",
        ),
        ("--unit cuda:fp8 --lanes 8", "lanes is for units of the model, not for cuda:fp8"),
    ],
)
def test_refusals_are_one_line(capsys, arguments, message):
    assert refusal(capsys, "probe", *arguments.split()).startswith(message)


def test_a_table_without_the_elements_of_the_probe_is_refused():
    values = [0, 1, 2, 4, 8, 16, 32, np.nan]
    fmt = TableFormat("powers4", [*values, *(-x for x in values)])
    with pytest.raises(ValueError, match=r"must have the element 0\.5 for a probe, not powers4"):
        probe(ModelUnit("aligned:8", (fmt, fmt), 4), rows=2)
