"""Tables of figures, from files as their commands write them."""

import csv

import figure_tables as tables
import pytest


def write(path, lines):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)


def cells(table):
    """Rows below the header, without marks of code."""
    rows = [line.strip("| ").replace("`", "").split(" | ") for line in table.splitlines()[2:]]
    return {row[0]: row[1:] for row in rows}


def dbs(accumulator, of_format, total):
    return {"sqnr_accumulator_db": accumulator, "sqnr_format_db": of_format, "sqnr_total_db": total}


def test_the_smallest_f_goes_on_to_meet_the_aim(tmp_path):
    """F = 1 meets 1 dB by chance and F = 2 does not, so that 3 is the smallest."""
    losses = {0: 5.0, 1: 0.9, 2: 1.1, 3: 0.5, 4: 0.05}
    lines = [
        {"format": fmt, "accumulator": f"aligned:{f}", "data": data, "length": length}
        | dbs(20 + 10 * f, 30, 30 - loss)
        for fmt in ("e4m3", "e5m2")
        for data in tables.FRACTION_DATA
        for length in (32, 4096)
        for f, loss in losses.items()
    ]
    write(tmp_path / "lengths.csv", lines)
    found = cells(tables.fraction_bits(tmp_path))
    assert found["total within 1 dB of exact"] == ["3 / 3"] * 4
    assert found["total within 0.1 dB of exact"] == ["4 / 4"] * 4
    assert found["accumulator's error 10 dB below the format's"] == ["2 / 2"] * 4
    write(tmp_path / "lengths.csv", [line for line in lines if line["accumulator"] < "aligned:2"])
    assert cells(tables.fraction_bits(tmp_path))["total within 1 dB of exact"] == ["1 / 1"] * 4
    write(tmp_path / "lengths.csv", [line for line in lines if line["accumulator"] < "aligned:3"])
    assert cells(tables.fraction_bits(tmp_path))["total within 1 dB of exact"] == ["- / -"] * 4


def test_losses_by_length(tmp_path):
    lines = [
        {"format": fmt, "accumulator": rule, "data": data, "length": length}
        | dbs(50, 30, 30 - (length / 1000 if rule == "hopper" else -0.001))
        for fmt in ("e4m3", "e5m2")
        for rule in ("hopper", "hopper-promoted")
        for data in tables.LENGTH_DATA
        for length in tables.LENGTHS
    ]
    write(tmp_path / "lengths.csv", lines)
    found = cells(tables.lengths(tmp_path))
    assert found["normal"] == ["0.13", "0.51", "1.0", "4.1", "16", "0"]


def test_areas_of_whole_units(tmp_path):
    """Units with all options come first in the study; others of the same name do not count."""
    line = {"generated": "True", "lanes": "32", "stages": "4", "format": "e4m3"}
    lines = [
        line | {"accumulator": "exact", "area": "33736.4"},
        line | {"accumulator": "exact", "area": "32977.0"},
        line | {"accumulator": "aligned:8", "area": "1", "stages": "2"},
        line | {"accumulator": "aligned:8", "area": "1", "generated": "False"},
    ]
    write(tmp_path / "compare.csv", lines)
    found = cells(tables.units(tmp_path))
    assert found["e4m3"] == ["33,736", *"-" * 6]
    assert found["int8"] == ["-"] * 7


def test_running_values_of_16_bits(tmp_path):
    write(
        tmp_path / "compare.csv",
        [{"accumulator": "bfloat16", "area": "6145.2", "delay_ps": "2790", "data": "normal"}] * 2,
    )
    lines = [
        {"accumulator": "bfloat16", "data": data, "length": length} | dbs(length / 100, 30, n)
        for n, (data, length) in enumerate(tables.NARROW)
    ]
    write(tmp_path / "lengths.csv", lines)
    found = cells(tables.narrow(tmp_path))
    assert found == {"bfloat16": ["6,145", "2,790", "10.2", "163.8", "1.0", "2.0"]}


def test_the_table_of_networks_and_areas(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "IN_NETWORKS", ("aligned:3", "hopper", "float32"))
    line = {"perplexity": "2.61234", "sqnr_db": "21.77", "area": "1834.5", "reached_mhz": ""}
    lines = [
        {"name": "aligned:3"} | line,
        {"name": "hopper"} | line | {"reached_mhz": "915"},
        {"name": "float32"} | line | {"sqnr_db": "", "area": ""},
    ]
    write(tmp_path / "perplexity.csv", lines)
    table = tables.perplexity(tmp_path)
    assert table.startswith("| accumulator | perplexity of the language model | SQNR")
    assert "| `hopper` | " in table
    assert cells(table) == {
        "aligned:3": ["2.612", "21.8", "1,834", "-"],
        "hopper": ["2.612", "21.8", "1,834", "915 MHz"],
        "float32": ["2.612", "-", "-", "-"],
    }
    write(tmp_path / "perplexity.csv", lines[:-1])
    with pytest.raises(ValueError, match=r"^perplexity.csv must have float32$"):
        tables.perplexity(tmp_path)


def test_products_of_schemes(tmp_path):
    lines = [
        {"scheme": name, "data": data, "bits": "4.25", "sqnr_product_db": n}
        for n, name in enumerate(tables.SHOWN)
        for data in ("normal", "real query")
    ]
    write(tmp_path / "schemes.csv", lines)
    table = tables.products(tmp_path)
    assert table.startswith("| scheme | bits | normal | query |")
    assert cells(table)["mx9"] == ["4.25", "14.0", "14.0"]
    write(tmp_path / "schemes.csv", lines[:-2])
    with pytest.raises(ValueError, match=r"schemes\.csv must have mx9"):
        tables.products(tmp_path)


def test_limits_of_calibrators(tmp_path):
    line = {"scheme": "int4_tensor", "kind": "calibrator", "setting": "mse", "data": "normal"}
    other = line | {"kind": "clip", "setting": "0.5"}
    write(tmp_path / "clipping.csv", [line | {"sqnr_db": 18.94}, other | {"sqnr_db": 1}])
    assert tables.clipping(tmp_path).splitlines()[2:] == ["| `mse` | 18.9 |"]


def test_schemes_in_a_network(tmp_path, monkeypatch):
    """Named pairings in order, by whatever scale rule; tokens' scales are no bits of their own."""
    names = "mx9", "mxfp4", "int4_g128/bfloat16"
    monkeypatch.setattr(tables, "IN_NETWORK", names)
    line = {"scheme": "int4_g128/bfloat16", "bits_weights": "4", "bits_activations": "16"}
    line |= {"sqnr_db": "35.12", "sqnr_least_db": "21.2"}
    line |= {"encoder_sqnr_db": "13.1", "encoder_cosine": "0.97601", "area_per_lane": ""}
    lines = [
        line | {"area_per_lane": "1437.4"},
        line | {"scheme": "msfp16"},
        line | {"scheme": "mxfp4:even", "bits_activations": "4.01"},
        line | {"scheme": "mx9", "bits_activations": "4"},
    ]
    write(tmp_path / "schemes.csv", lines)
    found = cells(tables.network(tmp_path))
    assert found == {
        "mx9": ["4.00", "35.1, 21.2", "13.1", "0.9760", "-"],
        "mxfp4:even": ["4.00", "35.1, 21.2", "13.1", "0.9760", "-"],
        "int4_g128/bfloat16": ["4.00, 16.00", "35.1, 21.2", "13.1", "0.9760", "1,437"],
    }
    assert [name.partition(":")[0] for name in found] == list(names)
    write(tmp_path / "schemes.csv", lines[1:])
    with pytest.raises(ValueError, match=r"^schemes.csv must have int4_g128/bfloat16$"):
        tables.network(tmp_path)


def test_printed_tables(tmp_path):
    rows = (
        "noise\n| unit | asap7: um2 | ps | sky130: um2 | ps | flip-flops |\n" + "|---" * 6 + "|\n"
    )
    rows += "| e4m3 products | 1 | 2 | 3 | 4 | 0 |\n"
    whole = "| exact, 4 stages | 1,742 | 2,000 | 9 | 400 | 819 |\n"
    (tmp_path / "log").write_text(rows + whole)
    assert cells(tables.of_units(tmp_path)) == {"exact, 4 stages": ["1,742", "2,000", "9", "400"]}
    rows, _, _ = rows.rpartition("| e4m3")
    (tmp_path / "log").write_text(rows + whole)
    assert cells(tables.reported(tmp_path)) == {
        "exact, 4 stages": ["1,742", "2,000", "9", "400", "819"]
    }
    clocks = tables.clocked(tmp_path)
    assert clocks.startswith("| unit | asap7: um2 | MHz |")
    assert cells(clocks) == {"exact, 4 stages": ["1,742", "500", "9", "2,500", "819"]}
    assert "`exact, 4 stages`" in clocks


def test_delays_become_clocks(tmp_path):
    header = (
        "| unit | asap7: um2 | ps | flip-flops: um2 | ps | flip-flops |\n|---|---|---|---|---|---|"
    )
    (tmp_path / "log").write_text(
        f"begins\n{header}\n| a, 4 stages | 1,773 | 1,757 | 9 | 500 | 7 |\n"
    )
    table = tables.clocked(tmp_path)
    assert table.splitlines()[0] == (
        "| unit | asap7: um2 | MHz | flip-flops: um2 | MHz | flip-flops |"
    )
    assert cells(table) == {"a, 4 stages": ["1,773", "569", "9", "2,000", "7"]}


TRAINED = """{size}

| variant | seeds | validation loss | minus bfloat16 | standard error | worst seed |
|---|---|---|---|---|---|
| mxfp8 | 3 | 1.0 | {loss} | 0.1 | +0.2 |
| bfloat16 | 3 | 1.1 |  |  |  |

| one step from bfloat16's weights | loss minus float32 | gradient error | mean gradient |
|---|---|---|---|
| bfloat16 | +0.3 | 0.4 | 0.5 |
| mxfp8 | +0.6 | {error} | 0.7 |
"""


def test_losses_of_training(tmp_path):
    one, two = (
        TRAINED.format(size="", loss="-1", error="8"),
        TRAINED.format(size="large", loss="+2", error="9"),
    )
    (tmp_path / "losses.md").write_text(one)
    assert cells(tables.losses(tmp_path)) == {"mxfp8": ["-1", "0.1", "8"]}
    assert "bfloat16: 1.1" in tables.losses(tmp_path)
    (tmp_path / "losses.md").write_text(f"{one}\n{two}")
    assert cells(tables.losses_by_size(tmp_path)) == {"mxfp8": ["-1, +2", "0.1, 0.1", "8, 9"]}
