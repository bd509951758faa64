"""Units that compute something else, for benches to catch.

What makes units wrong is a function of pytest's patch: `wrong(patch)` patches the hardware. Those
that `breaks` made, and others that take a second argument, can be in one unit, of which each run
chooses (`run_one_of`): one build serves many tests.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from functools import cache, partial, wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from mxdot.hw.dot.lane import AlignShifter, places_around
from mxdot.hw.dot.unit import DotUnit
from mxdot.hw.hierarchy import submodule
from mxdot.hw.quantize.encode import ElementEncoder, LaneWords
from mxdot.hw.quantize.unit import QuantizeUnit
from mxdot.hw.verilog import default_top, generate, modules_of
from mxdot.model.lfsr import WORD_BITS
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.regression import run_unit
from mxdot.sim.engine.unit import UnitResult

When = Callable[[Module], Value]
"""Whether a unit is wrong, for statements of this module."""
Wrong = Callable[..., None]


def overridden(
    patch: pytest.MonkeyPatch, component: type, override, when: When | None = None
) -> None:
    """Let `override(component, m)` add statements, which win over those of the component."""
    right = component.elaborate  # type: ignore[attr-defined]

    def elaborate(self, platform) -> Module:
        m = right(self, platform)
        if when is None:
            override(self, m)
        else:
            with m.If(when(m)):
                override(self, m)
        return m

    patch.setattr(component, "elaborate", elaborate)


def breaks(*components: type) -> Callable[[Callable], Wrong]:
    """Turns `override(component, m)` into a patch that breaks these components."""

    def breaking(override: Callable) -> Wrong:
        @wraps(override)
        def broken(patch: pytest.MonkeyPatch, when: When | None = None) -> None:
            for component in components:
                overridden(patch, component, override, when)

        return broken

    return breaking


def edited(component: type | ModuleType, method: str, old: str, new: str) -> Wrong:
    """Units with another text in a method, or a function of a module; WHEN in `new` is whether they
    are wrong."""

    def broken(patch: pytest.MonkeyPatch, when: When | None = None) -> None:
        right = inspect.getattr_static(component, method)
        function = getattr(right, "__func__", right)
        source = getattr(function, "source", None) or textwrap.dedent(inspect.getsource(right))
        assert source.count(old) == 1, source
        name = f"when{sum(name.startswith('when') for name in function.__globals__)}"
        source = source.replace(old, new.replace("WHEN", f"{name}(m)"))
        known = {**function.__globals__, name: when or (lambda m: Const(1, 1))}
        exec(source, known)
        getattr(known[method], "__func__", known[method]).source = source
        patch.setattr(component, method, known[method])

    broken.__name__ = f"{component.__name__} {method}: {new}"
    return broken


class Choice(wiring.Component):
    """A bit per mistake: it is in the unit of this run.

    A simulation of Verilog reads the bits from the file `choice` in its directory, or `soak_choice`
    in its soak's; none is set without a file."""

    wrong: Any

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__({"wrong": Out(count)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.wrong.eq(0)
        return m


CHOICE = """\
module {name} (
  output reg [{last}:0] wrong
);
  integer file, found;
  initial begin
    wrong = 0;
    file = $fopen("choice", "r");
    if (file == 0) file = $fopen("../../../soak_choice", "r");
    if (file != 0) begin
      found = $fscanf(file, "%b", wrong);
      $fclose(file);
    end
  end
endmodule
"""


def _is_chosen(number: int, count: int, m: Module) -> Value:
    if not hasattr(m, "_choice"):
        m._choice = submodule(m, "choice", Choice(count))  # type: ignore[attr-defined]
    return m._choice.wrong[number]  # type: ignore[attr-defined]


@breaks(AlignShifter)
def off_by_one_shift(shift, m):
    """Products five places below the largest are shifted by four."""
    _, above = places_around(shift.widths)
    word = (shift.significand << above) >> 4
    with m.If(shift.distance == 5):
        m.d.comb += shift.word.eq(word ^ shift.inverts.replicate(len(shift.word)))


@breaks(AlignShifter)
def dropped_sticky_bit(shift, m):
    m.d.comb += shift.sticky.eq(0)


@breaks(DotUnit, QuantizeUnit)
def lost_under_backpressure(unit, m):
    m.d.comb += unit.i.ready.eq(1)


@breaks(DotUnit, QuantizeUnit)
def never_ready(unit, m):
    m.d.comb += unit.i.ready.eq(0)


@breaks(DotUnit, QuantizeUnit)
def never_valid(unit, m):
    m.d.comb += unit.o.valid.eq(0)


@breaks(DotUnit)
def hangs_after_nan(unit, m):
    """After the first NaN scale of a: nothing in and nothing out."""
    stuck = Signal()
    with m.If(unit.i.valid & (unit.i.payload.scale_a == 0xFF)):
        m.d.sync += stuck.eq(1)
    with m.If(stuck):
        m.d.comb += [unit.i.ready.eq(0), unit.o.valid.eq(0)]


@breaks(DotUnit)
def unstable_result(unit, m):
    count = Signal(4)
    m.d.sync += count.eq(count + 1)
    with m.If(count == 0):
        m.d.comb += unit.o.payload.result[0].eq(1)


@cache
def verilog_of_any(wrongs: tuple[Wrong, ...], config: Any) -> str:
    """The unit that is `config` and, where `choice` says so, wrong."""
    with pytest.MonkeyPatch.context() as patch:
        for number, wrong in enumerate(wrongs):
            wrong(patch, partial(_is_chosen, number, len(wrongs)))
        text = generate(config)
    name = f"{default_top(config)}_choice_{len(wrongs)}"
    module = modules_of(text)[name]
    width = rf"\[{len(wrongs) - 1}:0\] " if len(wrongs) > 1 else ""
    assert re.search(rf"output (wire )?{width}wrong\n", module), module
    return text.replace(module, CHOICE.format(name=name, last=len(wrongs) - 1))


def wrong_verilog(wrong: Wrong, config: Any, directory: Path) -> Path:
    """The file of the unit that is `config` with what `wrong` patches."""
    verilog = directory / f"{wrong.__name__}.v"
    with pytest.MonkeyPatch.context() as patch:
        wrong(patch)
        verilog.write_text(generate(config))
    return verilog


@cache
def right_verilog(config: Any) -> str:
    """The Verilog of a unit, elaborated once."""
    return generate(config)


def run_small(config: Any, directory: Path, builds: Path, **options: Any) -> UnitResult:
    """Run the bench in `directory` with seed 1; simulations are kept in `builds`."""
    repeat = "mxdot sim --seed 1"
    if "verilog" not in options:
        options["verilog"] = directory / "right.v"
        options["verilog"].write_text(right_verilog(config))
    return run_unit(UnitJob("small", config, 1, directory, builds=builds, repeat=repeat, **options))


def run_one_of(
    wrongs: Sequence[Wrong],
    chosen: Wrong | Sequence[Wrong],
    config: Any,
    directory: Path,
    builds: Path,
    **options: Any,
) -> UnitResult:
    """`run_small` with the chosen ones of `wrongs`, all of which are in one unit; it must not
    pass. Of two that override the same signal the later wins."""
    chosen_ones = [chosen] if callable(chosen) else chosen
    if _right_key(wrongs, config, options) not in _RIGHT_WITHOUT:
        # That it is right takes no long run in bulk, but to have run.
        short = options | ({"bulk": 0} if _has_traffic(options) else {})
        result = run_none_of(wrongs, config, directory / "right", builds, **short)
        assert result.passed, result.errors
    bits = sum(1 << wrongs.index(wrong) for wrong in chosen_ones)
    result = _run_choice(bits, wrongs, config, directory, builds, **options)
    assert not result.passed
    return result


def run_none_of(
    wrongs: Sequence[Wrong], config: Any, directory: Path, builds: Path, **options: Any
) -> UnitResult:
    """`run_one_of` with nothing chosen."""
    result = _run_choice(0, wrongs, config, directory, builds, **options)
    if result.passed:
        _RIGHT_WITHOUT.add(_right_key(wrongs, config, options))
    return result


def _has_traffic(options: dict[str, Any]) -> bool:
    return options.get("traffic") != 0


def _right_key(wrongs: Sequence[Wrong], config: Any, options: dict[str, Any]) -> tuple:
    return tuple(wrongs), config.name, _has_traffic(options)


_RIGHT_WITHOUT: set[tuple] = set()
"""Units that pass, with traffic or in bulk alone, where nothing is chosen of what is wrong in
them."""


def _run_choice(
    bits: int, wrongs: Sequence[Wrong], config: Any, directory: Path, builds: Path, **options: Any
) -> UnitResult:
    directory.mkdir(exist_ok=True)
    builds /= f"wrong-{config.kind}-{config.name}"
    verilog = directory / "wrong.v"
    verilog.write_text(verilog_of_any(tuple(wrongs), config))
    choose(bits, directory)
    return run_small(config, directory, builds, verilog=verilog, **options)


def choose(bits: int, directory: Path, name: str = "choice") -> None:
    """Chooses the faults of runs in `directory`: one bit per fault, the first lowest."""
    (directory / name).write_text(f"{bits:b}\n")


def chosen_verilog(wrongs: Sequence[Wrong], chosen: Wrong, config: Any, directory: Path) -> Path:
    """The file of a unit in which all of `wrongs` are, for a soak in `directory` the chosen one."""
    choose(1 << wrongs.index(chosen), directory, "soak_choice")
    verilog = directory / "wrong.v"
    verilog.write_text(verilog_of_any(tuple(wrongs), config))
    return verilog


@breaks(LaneWords)
def frozen_words(words, m):
    """A shift register that does not step."""
    m.d.comb += words.words[0].eq(words.lanes)


def with_carry(sum_of):
    """Rounding up by the carry of `sum_of(discarded, word, when)`."""

    def broken(patch, when):
        def rounds_up(self, m):
            total = Signal(WORD_BITS + 1)
            m.d.comb += total.eq(sum_of(self.i.discarded, self.word, when(m)))
            return total[-1]

        patch.setattr(ElementEncoder, "_rounds_up", rounds_up)

    return broken


odd_words = with_carry(lambda discarded, word, when: discarded + (word | when))
odd_digits = with_carry(lambda discarded, word, when: (discarded | when) + word)
even_digits = with_carry(lambda discarded, word, when: discarded - (discarded[0] & when) + word)
one_too_many = with_carry(lambda discarded, word, when: discarded + word + (discarded.any() & when))
AT_THE_CARRY = {
    "odd words": odd_words,
    "odd digits": odd_digits,
    "even digits": even_digits,
    "one too many": one_too_many,
}
"""Rounding by random words that is wrong where digits and word reach the carry, or just miss it."""
