"""The picture of networks and areas against fraction bits."""

import json

import perplexity_figure
import pytest

from mxdot.compare.studies import Row


def unit(accumulator, area, **fields):
    return Row("a unit", True, accumulator=accumulator, area=area, area_error=5.0, **fields)


def test_networks_and_areas_against_fraction_bits(tmp_path):
    """Levels that fall together share a line; a unit that misses the clock says what it reaches."""
    rows = [
        {"name": "float32", "sqnr_db": "inf", "perplexity": 2.5, "error": None},
        {"name": "bf16", "sqnr_db": 40.0, "perplexity": 2.5001, "error": None},
        {"name": "mxfp8 aligned:3", "sqnr_db": 5.0, "perplexity": 3.5, "error": None},
        {"name": "mxfp8 aligned:10", "sqnr_db": 20.0, "perplexity": 2.6, "error": None},
        {"name": "mxfp8 exact", "sqnr_db": 20.5, "perplexity": 2.59, "error": None},
    ]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"networks": rows}))
    both = [perplexity_figure.networks(path, name) for name in ("perplexity", "sqnr_db")]
    assert "float32" not in both[1]
    missed = unit("hopper", 130.0, status="target missed", delay_ps=1250.0)
    units = [unit("exact", 120.0), missed, unit("aligned:10", 110.0), unit("aligned:3", 90.0)]
    found = perplexity_figure.content(*both, units)
    names = ["aligned:3", "aligned:10", "float32", "bfloat16", "exact", "hopper"]
    assert [line["name"] for line in found] == names
    assert perplexity_figure._levels(found[:-1], "perplexity") == [
        ("float32, bfloat16", 2.5),
        ("exact", 2.59),
    ]
    areas = [line for line in found if line["area"]]
    assert perplexity_figure._levels(areas, "area") == [
        ("exact", 120.0),
        ("hopper, at 800 MHz", 130.0),
    ]
    drawn = perplexity_figure.picture(found)
    titles = [panel["title"] for panel in drawn.panels]
    assert titles == ["a language model", "a sentence encoder", "the unit at 1 GHz"]
    marks = drawn.panels[0]["layer"][-1]["data"]["values"]
    assert [(mark["x"], mark["y"]) for mark in marks] == [(3, 3.5), (10, 2.6)]
    rows[2]["error"] = "no memory"
    path.write_text(json.dumps({"networks": rows}))
    with pytest.raises(ValueError, match=r"cases that ended well, not mxfp8 aligned:3$"):
        perplexity_figure.networks(path, "perplexity")
