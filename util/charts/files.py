"""Pictures as files: SVG and PNG, the same bytes for the same picture."""

from collections.abc import Sequence
from pathlib import Path

from ..files import write_file
from .picture import Picture

VEGALITE = "6.4"
"""The version of Vega-Lite that files and report are made with."""
SCALE = 2.0  # pixels of a PNG for each unit of the description


def svg(picture: Picture) -> str:
    """The picture as the text of an SVG."""
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
