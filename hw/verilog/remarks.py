"""Comments of modules, from docstrings of their components and of the layouts of values."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass

from amaranth.lib import wiring

from ..dot.multiply import Multipliers
from ..hierarchy import meanings, module_shapes, paragraphs, summary
from ..pipeline import ClockedSection, Section

NOTE = re.compile(r"(?:^|(?<=\. ))(\w+): ")
"""Start of a value's meaning in a section's docstring, in a paragraph of them."""

COMMON = {
    "a": "codes of a",
    "b": "codes of b",
    "scale_a": "scale of a",
    "scale_b": "scale of b",
    "mode": "number of the pair of formats",
    "c": "value of the caller that the sum starts from",
    "first": "first block of a dot product",
    "last": "last block of a dot product, or last beat of codes",
    "starts": "a running sum starts with this block",
    "promotes": "the partial sum is added to c after this block",
    "scale": "s, exponent of both scales",
    "factor": "g, product of the scales' significands",
    "scale_nan": "a scale is NaN",
    "negatives": "words whose sum is the number n of negative terms: S = words + n - n x 2^w",
    "words": "terms on one grid, w digits each; a negative one, -p, as ~p = 2^w - p - 1",
    "partial_sums": "words whose sum, modulo their width, is S",
    "rows": "two words whose sum, modulo their width, is S",
    "total": "the sum",
    "top_exponent": "biased exponent of the window's top place",
    "sticky": "a digit 1 was cut off",
}
"""Meanings of values that several sections of dot units share, where none says another."""

DOT = Multipliers.__module__.rpartition(".")[0]


@dataclass(frozen=True)
class Remarks:
    """Comments by a module's name: its function in a sentence, and in full with its values.

    sections: modules whose instances repeat the sentence.
    """

    sentences: Mapping[str, str]
    full: Mapping[str, list[str]]
    sections: Container[str]


def remarks_of(components: Mapping[str, wiring.Component]) -> Remarks:
    """Comments of all modules. A value that a section reads is explained as its writer does."""
    sentences = {name: summary(component) for name, component in components.items()}
    full: dict[str, list[str]] = {}
    sections: set[str] = set()
    known: dict[str, dict[str, str]] = {DOT: dict(COMMON)}
    for name, component in components.items():
        if not isinstance(component, Section | ClockedSection):
            lines = [sentences[name]] if sentences[name] else []
            full[name] = lines + _listed(meanings(module_shapes(component)))
            continue
        sections.add(name)
        package = type(component).__module__.rpartition(".")[0]
        written = known.setdefault(package, {})
        prose, notes = _parted(paragraphs(component))
        reads, writes = meanings(component.reads), meanings(component.writes)
        reads |= {value: written[value] for value in component.reads if value in written}
        said = {**(COMMON if package == DOT else {}), **notes}
        writes |= {value: said[value] for value in component.writes if value in said}
        full[name] = prose + _listed({**reads, **writes})
        written |= writes
    return Remarks(sentences, full, sections)


def _parted(texts: list[str]) -> tuple[list[str], dict[str, str]]:
    """(plain paragraphs, meanings of values by name)."""
    prose = [text for text in texts if not NOTE.match(text)]
    notes: dict[str, str] = {}
    for text in texts:
        if NOTE.match(text):
            _, *parts = NOTE.split(text)
            notes |= {
                name: note.strip().removesuffix(".")
                for name, note in zip(parts[::2], parts[1::2], strict=True)
            }
    return prose, notes


def _listed(values: Mapping[str, str]) -> list[str]:
    """A line per meaning, with the names of all values that it is of."""
    names: dict[str, list[str]] = {}
    for name, meaning in values.items():
        names.setdefault(meaning, []).append(name)
    return [f"  {', '.join(same)}: {meaning}" for meaning, same in names.items()]
