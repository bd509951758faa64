"""The kinds of units that `--unit` chooses from, their options and configurations."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..model.config import DotConfig
from ..model.dot_quantize_config import DotQuantizeConfig
from ..model.errors import choice
from ..model.matmul_config import MatmulConfig
from ..model.quantize_config import QuantizeConfig
from .options import (
    DOT_OPTIONS,
    DOT_QUANTIZE_OPTIONS,
    MATMUL_OPTIONS,
    QUANTIZE_OPTIONS,
    SHARED_OPTIONS,
    Option,
    given,
)


@dataclass(frozen=True)
class Kind:
    """A kind of unit: its options, and its configuration of their keywords."""

    options: tuple[Option, ...]
    config: Callable[..., Any]


def matmul_config(**keywords: Any) -> MatmulConfig:
    """The matrix unit of its own keywords and those of its dot units."""
    shared = {option.keyword for option in SHARED_OPTIONS} & set(keywords)
    dot = DotConfig(**{keyword: keywords.pop(keyword) for keyword in shared})
    return MatmulConfig(dot, **keywords)


def dot_quantize_config(**keywords: Any) -> DotQuantizeConfig:
    """The dot unit and the quantiser behind it."""
    shared = {option.keyword for option in DOT_OPTIONS} & set(keywords)
    dot = DotConfig(**{keyword: keywords.pop(keyword) for keyword in shared})
    return DotQuantizeConfig(dot, **keywords)


KINDS = {
    "dot": Kind(DOT_OPTIONS, DotConfig),
    "quantize": Kind(QUANTIZE_OPTIONS, QuantizeConfig),
    "dot-quantize": Kind(DOT_QUANTIZE_OPTIONS, dot_quantize_config),
    "matmul": Kind(MATMUL_OPTIONS, matmul_config),
}

UNIT = Option("--unit", "unit", f"kind of unit: {', '.join(KINDS)} (default: dot)", "KIND")
UNIT_OPTIONS = (UNIT, *dict.fromkeys(o for kind in KINDS.values() for o in kind.options))
"""The options of every kind, each once."""


def add_unit_options(parser: argparse.ArgumentParser) -> None:
    """Options that describe one unit of any kind."""
    UNIT.add(parser.add_argument_group("unit"))
    added: set[Option] = set()
    for name, kind in KINDS.items():
        shared = [option.flag for option in kind.options if option in added]
        beside = f", beside {', '.join(shared)}" if shared else ""
        group = parser.add_argument_group(f"options of --unit {name}{beside}")
        for option in kind.options:
            if option not in added:
                option.add(group)
        added.update(kind.options)


def unit_config(args: argparse.Namespace) -> Any:
    """The configuration of the options of `add_unit_options`."""
    name = choice("unit", "dot" if args.unit is None else args.unit, KINDS)
    options = KINDS[name].options
    for option in UNIT_OPTIONS[1:]:
        if option not in options and getattr(args, option.name) is not None:
            raise ValueError(f"{option.flag} is no option of --unit {name}")
    return KINDS[name].config(**given(args, options))
