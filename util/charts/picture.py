"""Pictures: the description that a chart makes, for a part of the report or a file."""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from ..files import write_file
from .layers import legend_panel
from .palette import LIGHT, config

LONGEST = 120  # characters of a file's name
WIDTH, HEIGHT = 330, 250


@dataclass(frozen=True)
class Entry:
    """Meaning of a colour or symbol."""

    label: str
    colour: str
    shape: str


@dataclass(frozen=True)
class Picture:
    """Panels side by side, as far as there is room, under one title.

    panels: Vega-Lite descriptions of one view each, without a size. flow, data: what of a
    comparison is shown; None for any. height: of a panel, for each where they differ.
    columns: of panels, at most.
    """

    name: str
    title: str
    panels: Sequence[dict[str, Any]]
    caption: str = ""
    legend: Sequence[Entry] = ()
    flow: str | None = None
    data: str | None = None
    height: int | Sequence[int] = HEIGHT
    columns: int = 3

    @property
    def file_name(self) -> str:
        """Name of its files; a long name ends in a hash."""
        text = "-".join(filter(None, (self.name, self.flow, self.data)))
        name = re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")
        return name if len(name) <= LONGEST else f"{name[:LONGEST]}-{zlib.crc32(text.encode()):08x}"

    @property
    def heights(self) -> list[int]:
        if isinstance(self.height, int):
            return [self.height] * len(self.panels)
        return list(self.height)

    def whole(self) -> dict[str, Any]:
        """Vega-Lite description of the picture as a file."""
        sized = [
            panel | {"width": WIDTH, "height": height}
            for panel, height in zip(self.panels, self.heights, strict=True)
        ]
        columns = min(self.columns, len(sized))
        room = columns * (WIDTH + 60)
        rows: list[dict[str, Any]] = [{"concat": sized, "columns": columns, "spacing": 24}]
        if self.legend:
            rows.append(legend_panel([vars(entry) for entry in self.legend], room))
        return {
            "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
            "title": {
                "text": self.title,
                "subtitle": wrap(self.caption, room // 6),
                "fontSize": 15,
                "offset": 14,
            },
            "vconcat": rows,
            "padding": 12,
            "config": config(LIGHT),
        }

    def _repr_svg_(self) -> str:
        """The picture in a notebook."""
        return svg(self)

    def parts(self) -> dict[str, Any]:
        """Plain JSON types for the report."""
        return {
            "title": self.title,
            "caption": self.caption,
            "flow": self.flow,
            "data": self.data,
            "panels": list(self.panels),
            "heights": self.heights,
            "columns": self.columns,
            "legend": [vars(entry) for entry in self.legend],
        }


VEGALITE = "6.4"
"""Version of Vega-Lite for files and report."""
SCALE = 2.0  # pixels of a PNG for each unit of the description


def svg(picture: Picture) -> str:
    """Text of the picture's SVG."""
    import vl_convert

    return vl_convert.vegalite_to_svg(picture.whole(), vl_version=VEGALITE)


def save(picture: Picture, stem: Path, kinds: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write `stem`.png and `stem`.svg, or one of them."""
    import vl_convert

    text = svg(picture)
    written = []
    for kind in kinds:
        written.append(stem.with_name(f"{stem.name}.{kind}"))
        content = text if kind == "svg" else vl_convert.svg_to_png(text, scale=SCALE)
        write_file(written[-1], content)
    return written
