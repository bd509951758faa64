"""`mxdot compute` and `mxdot machines`: results of the model without Python."""

import json
import re
import shlex
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

from checkpoint_files import write
from command_line import refusal, run
from doc_examples import PAGES
from mxdot.cli.operands import Scaling, Source, operand
from mxdot.model import (
    MACHINES,
    MXArray,
    TableFormat,
    matmul,
    quantize,
    register_format,
    unscaled,
)
from mxdot.model.formats import FloatFormat
from registries import registries as registries

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((2, 64), np.float32), RNG.standard_normal((3, 64), np.float32)
E4M3_TYPE = ml_dtypes.float8_e4m3fn


@pytest.fixture
def files(tmp_path):
    """Operands a and b as two files, and other files of theirs."""
    np.save(tmp_path / "a.npy", A)
    np.save(tmp_path / "b.npy", B)
    np.save(tmp_path / "row.npy", A[0])
    np.save(tmp_path / "transposed.npy", B.T)
    np.savez(tmp_path / "ab.npz", x=A, w=B)
    np.savez(tmp_path / "abc.npz", x=A, w=B, c=np.ones((2, 3), np.float32))
    np.save(tmp_path / "bytes.npy", A.astype(E4M3_TYPE))
    np.save(tmp_path / "codes.npy", A.astype(E4M3_TYPE).view(np.uint8))
    np.save(tmp_path / "scales.npy", np.array([[130, 120], [127, 127]], np.uint8))
    np.save(tmp_path / "c.npy", np.float32(3))
    np.savez(tmp_path / "none.npz")
    return tmp_path


def computed(capsys, files, *arguments):
    """The array that `mxdot compute -o` writes; nothing on standard error."""
    path = files / "out.npy"
    status, _, err = run(capsys, "compute", *arguments, "-o", path)
    assert (status, err) == (0, "")
    return np.load(path)


def test_accumulators_that_take_other_operands(capsys, files):
    operands = [files / "a.npy", files / "b.npy"]
    for scales, differ in ([], True), (["--scales", "none"], False):
        command = ["compute", *operands, "--accumulator", "hopper,exact", *scales]
        status, out, _ = run(capsys, *command)
        assert status == 0
        assert ("operands    not the same for all: --format and --scales" in out) == differ


def test_a_format_with_the_range_of_float32_makes_no_warning():
    source = Source("ones", np.ones((1, 32), np.float32), False)
    _, how = operand(source, FloatFormat("e8m3", 8, 3), Scaling(False, 32, "floor"))
    assert how.endswith("scales of 1")


def test_flags_of_each_of_several_accumulators(capsys, files):
    command = "compute", "--accumulator", "fixed:2:0,exact", files / "a.npy", files / "b.npy"
    _, out, _ = run(capsys, *command)
    flags = [line for line in out.splitlines() if line.startswith("flags       ")]
    assert len(flags) == 2
    assert "saturated" in flags[0]
    assert "saturated" not in flags[1]


def test_several_machines_next_to_each_other(capsys, files):
    operands = [files / "a.npy", files / "b.npy"]
    names = "h100-bf16", "mi300x-bf16"
    status, out, err = run(capsys, "compute", "--machine", ",".join(names), *operands)
    assert (status, err) == (0, "")
    wanted = [
        matmul(unscaled(A, "bf16"), unscaled(B, "bf16"), rule)
        for rule in ("hopper-bf16", "cdna3-fp16")
    ]
    bits = [want.view(np.uint32) for want in wanted]
    _, table = out.split("\n\n")
    head, *rows = [line.split() for line in table.splitlines()]
    assert head == list(names)
    shown = {(int(r[0]), int(r[1])): (int(r[3], 16), int(r[5], 16), r[6:]) for r in rows}
    for place in np.ndindex(2, 3):
        first, second = (int(one[place]) for one in bits)
        assert shown[place] == (first, second, [] if first == second else ["differ"])
    count = int((bits[0] != bits[1]).sum())
    assert 0 < count < 6
    assert [row[-1] == "differ" for row in rows] == [True] * count + [False] * (6 - count)
    assert f"2 x 3, float32; {count} of 6 differ" in out
    status, out, _ = run(capsys, "compute", "--machine", ",".join(names), *operands, "--json")
    assert [[int(bits, 16) for row in one["bits"] for bits in row] for one in json.loads(out)] == [
        one.ravel().tolist() for one in bits
    ]
    assert (
        refusal(capsys, "compute", "--machine", ",".join(names), *operands, "-o", files / "c.npy")
        == "output is for one accumulator, not 2; --json FILE takes all"
    )


@pytest.mark.parametrize(
    ("options", "want"),
    [
        (
            ["--machine", "h100-fp8"],
            lambda: matmul(unscaled(A, "e4m3"), unscaled(B, "e4m3"), "hopper"),
        ),
        (
            ["--machine", "h100-fp8", "--scales", "block", "--scale-rule", "ceil"],
            lambda: matmul(
                quantize(A, "e4m3", scale_rule="ceil"),
                quantize(B, "e4m3", scale_rule="ceil"),
                "hopper",
            ),
        ),
        (
            ["--machine", "blackwell", "--format", "e5m2xe2m1"],
            lambda: matmul(quantize(A, "e5m2"), quantize(B, "e2m1"), "blackwell"),
        ),
        (
            ["--machine", "mi300x-bf16"],
            lambda: matmul(unscaled(A, "bf16"), unscaled(B, "bf16"), "cdna3-fp16"),
        ),
        (
            ["--machine", "cdna3-fp16"],
            lambda: matmul(unscaled(A, "fp16"), unscaled(B, "fp16"), "cdna3-fp16"),
        ),
        (
            ["--machine", "b200-fp4"],
            lambda: matmul(quantize(A, "e2m1"), quantize(B, "e2m1"), "blackwell"),
        ),
        (
            ["--accumulator", "aligned:8", "--format", "e2m3", "--block", "16"],
            lambda: matmul(
                quantize(A, "e2m3", block_size=16), quantize(B, "e2m3", block_size=16), "aligned:8"
            ),
        ),
        (
            ["--accumulator", "exact"],
            lambda: matmul(quantize(A, "e4m3"), quantize(B, "e4m3"), "exact"),
        ),
        (
            ["--accumulator", "int32"],
            lambda: matmul(quantize(A, "int8"), quantize(B, "int8"), "int32"),
        ),
    ],
)
def test_results_are_the_model_s(capsys, files, options, want):
    result = computed(capsys, files, *options, files / "a.npy", files / "b.npy")
    np.testing.assert_array_equal(result, want())


def test_shapes_and_names(capsys, files):
    rule = ["--machine", "h100-fp8"]
    want = computed(capsys, files, *rule, files / "a.npy", files / "b.npy")
    for operands in (
        [files / "ab.npz"],
        [files / "abc.npz", "--name", "x", "w"],
        [files / "a.npy", files / "transposed.npy", "--transpose"],
    ):
        np.testing.assert_array_equal(computed(capsys, files, *rule, *operands), want)
    one = computed(capsys, files, *rule, files / "row.npy", files / "b.npy")
    np.testing.assert_array_equal(one, want[0])
    assert computed(capsys, files, *rule, files / "row.npy").shape == ()
    from_c = computed(capsys, files, *rule, files / "ab.npz", "--c", files / "c.npy")
    a, b = unscaled(A, "e4m3"), unscaled(B, "e4m3")
    np.testing.assert_array_equal(from_c, matmul(a, b, "hopper", np.float32(3)))


def test_a_short_last_block_is_filled_with_zeros(capsys, tmp_path):
    for name, x in (("a", A), ("b", B)):
        np.save(tmp_path / f"{name}.npy", x[:, :40])
    result = computed(
        capsys, tmp_path, "--accumulator", "aligned:8", tmp_path / "a.npy", tmp_path / "b.npy"
    )
    a, b = (quantize(x[:, :40], "e4m3", pad=True) for x in (A, B))
    np.testing.assert_array_equal(result, matmul(a, b, "aligned:8"))


def test_a_format_of_ones_own_takes_scales_of_blocks(capsys, files):
    values = [0, 1, 2, 4, 8, 16, 32, np.nan]
    register_format(TableFormat("powers4", [*values, *(-x for x in values)]))
    command = [
        files / "a.npy",
        files / "b.npy",
        "--accumulator",
        "aligned:8",
        "--format",
        "powers4",
    ]
    for words, make in ([], unscaled), (["--scales", "block"], quantize):
        want = matmul(make(A, "powers4"), make(B, "powers4"), "aligned:8")
        assert np.array_equal(computed(capsys, files, *command, *words), want)


def test_codes_are_taken_as_they_are(capsys, files):
    codes = A.astype(E4M3_TYPE).view(np.uint8)
    ones = MXArray(codes, np.full((2, 2), 127, np.uint8), "e4m3")
    for name in ("codes.npy", "bytes.npy"):
        arguments = ["--accumulator", "aligned:8", "--format", "e4m3", files / name]
        result = computed(capsys, files, *arguments)
        np.testing.assert_array_equal(result, matmul(ones, ones, "aligned:8"))
        scales = files / "scales.npy"
        result = computed(capsys, files, *arguments, "--scales", scales, scales)
        scaled = MXArray(codes, np.load(scales), "e4m3")
        np.testing.assert_array_equal(result, matmul(scaled, scaled, "aligned:8"))


def test_scales_in_e4m3(capsys, tmp_path):
    np.save(tmp_path / "x.npy", np.full((1, 64), 2, np.uint8))  # 1.0 in E2M1
    np.save(tmp_path / "s.npy", np.full((1, 4), 0x40, np.uint8))  # 2.0 in E4M3
    arguments = ["--machine", "b200-nvfp4", tmp_path / "x.npy", "--scale-format", "e4m3"]
    scales = [tmp_path / "s.npy"] * 2
    assert computed(capsys, tmp_path, *arguments, "--scales", *scales).tolist() == [[256.0]]


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors"])
def test_bfloat16_holds_values(capsys, files, kind):
    x, path = A.astype(ml_dtypes.bfloat16), files / f"x.{kind}"
    if kind == "npy":
        np.save(path, x)
    elif kind == "npz":
        np.savez(path, x=x)
    else:
        write(path, {"x": ("BF16", x.view(np.uint16))})
    values = x.astype(np.float32)
    for options, make in (
        (["--machine", "h100-fp16"], lambda: (unscaled(values, "fp16"), "hopper-fp16")),
        (["--machine", "h100-bf16"], lambda: (unscaled(values, "bf16"), "hopper-bf16")),
        (["--accumulator", "aligned:13"], lambda: (quantize(values, "e4m3"), "aligned:13")),
    ):
        a, rule = make()
        np.testing.assert_array_equal(computed(capsys, files, *options, path), matmul(a, a, rule))


def of_codes(files, length):
    """E4M3 codes (2, length), and options for them up to the files of their scales."""
    codes = RNG.integers(0, 120, (2, length)).astype(np.uint8)
    np.save(files / "codes.npy", codes)
    return codes, ["--accumulator", "exact", "--format", "e4m3", files / "codes.npy", "--scales"]


@pytest.mark.parametrize(
    ("length", "columns", "block"), [(80, 3, 32), (64, 2, 32), (64, 4, 16), (96, 2, 48)]
)
def test_the_block_is_what_the_scales_have(capsys, files, length, columns, block):
    codes, options = of_codes(files, length)
    scales = np.arange(125, 125 + 2 * columns).reshape(2, columns).astype(np.uint8)
    np.save(files / "s.npy", scales)
    x = MXArray(np.pad(codes, ((0, 0), (0, -length % block))), scales, "e4m3", block)
    result = computed(capsys, files, *options, files / "s.npy", files / "s.npy")
    np.testing.assert_array_equal(result, matmul(x, x, "exact"))


def test_a_block_that_scales_leave_open_is_asked_for(capsys, files):
    _, options = of_codes(files, 80)
    np.save(files / "s.npy", np.full((2, 7), 127, np.uint8))
    said = refusal(capsys, "compute", *options, files / "s.npy", files / "s.npy")
    assert said == "block must be given: 7 scales are for 80 elements"


def test_the_type_of_scales_says_their_format(capsys, files):
    codes, options = of_codes(files, 64)
    raw, one = np.array([[0x38, 0x40], [0x48, 0x30]], np.uint8), files / "plain.npy"
    np.save(one, raw)
    for kind, name in ("F8_E4M3", "e4m3"), ("F8_E8M0", "e8m0"):
        path = write(files / f"{name}.safetensors", {"s": (kind, raw)})
        x = MXArray(codes, raw, "e4m3")
        want = matmul(x, x, "exact", scale_format=name)
        for scales in ([path, path], [one, path], [path, one]):
            np.testing.assert_array_equal(computed(capsys, files, *options, *scales), want)
    paths = files / "e4m3.safetensors", files / "e8m0.safetensors"
    said = refusal(capsys, "compute", *options, paths[0], paths[0], "--scale-format", "e8m0")
    assert said == f"scale-format must be e4m3 for scales of {paths[0]}, not e8m0"
    said = refusal(capsys, "compute", *options, *paths)
    assert said == f"scale-format must be e8m0 for scales of {paths[1]}, not e4m3"


@pytest.mark.parametrize("kind", ["int8", "bool", "float32", "float8_e5m2"])
def test_scales_of_other_types(capsys, files, kind):
    _, options = of_codes(files, 64)
    np.save(files / "s.npy", np.ones((2, 2), kind))
    said = refusal(capsys, "compute", *options, files / "s.npy", files / "s.npy")
    assert said == (f"scales of {files}/s.npy must be codes of e8m0 or e4m3, or uint8, not {kind}")


def test_every_row_of_a_weight_of_a_checkpoint(capsys, files):
    rows = 1500  # `compare` reads every second one
    w = quantize(RNG.standard_normal((rows, 64), np.float32), "e2m1")
    packed = w.codes[:, 0::2] | w.codes[:, 1::2] << 4
    folder = files / "checkpoint"
    folder.mkdir()
    write(
        folder / "model.safetensors",
        {"w.weight_packed": ("U8", packed), "w.weight_scale": ("U8", w.scales)},
    )
    options = ["--accumulator", "exact", "--format", "e2m1", files / "a.npy"]
    result = computed(capsys, files, *options, folder)
    np.testing.assert_array_equal(result, matmul(quantize(A, "e2m1"), w, "exact"))


def test_without_enough_memory(capsys, files, monkeypatch):
    for error, text in (MemoryError(), ""), (MemoryError("Unable to allocate 37 GiB"), ": Unable"):

        def fail(*_, error=error, **__):
            raise error

        monkeypatch.setattr("mxdot.cli.operands.load_sources", fail)
        said = refusal(capsys, "compute", "--machine", "ada", files / "a.npy")
        assert said.startswith(f"not enough memory{text}")


@pytest.mark.parametrize(
    "arguments",
    [
        "compute --machine h100-fp8 --json a.npy b.npy",
        "compute --machine h100-fp8 b.npy --json a.npy",
        "machines --json a.npy",
        "synth --top m --json a.npy b.npy",
        "energy --json a.npy",
        "probe --unit exact --json a.npy",
        "sim --json a.npy",
        "run-layer --shape 1,1,32 --json a.npy",
        "verify formal --json a.npy",
    ],
)
def test_json_takes_no_other_file(capsys, files, monkeypatch, arguments):
    monkeypatch.chdir(files)
    before = (files / "a.npy").read_bytes()
    assert refusal(capsys, *arguments.split()) == "json must end with .json, not a.npy"
    assert (files / "a.npy").read_bytes() == before


def test_json_to_a_device(capsys):
    assert run(capsys, "machines", "h100", "--json", "/dev/null")[0] == 0
    assert json.loads(run(capsys, "machines", "h100", "--json", "-")[1])["machines"]
    said = refusal(capsys, "machines", "h100", "--json", "/dev/full")
    assert said == "/dev/full: No space left on device"


def test_flags_are_printed_and_written(capsys, files):
    operands = [files / "a.npy", files / "b.npy"]
    out, as_json = files / "out.npz", files / "out.json"
    status, text, _ = run(
        capsys, "compute", "--machine", "h100-fp8", *operands, "-o", out, "--json", as_json
    )
    assert status == 0
    trace = matmul(unscaled(A, "e4m3"), unscaled(B, "e4m3"), "hopper", trace=True)
    written = json.loads(as_json.read_text())
    with np.load(out) as arrays:
        np.testing.assert_array_equal(arrays["result"], trace.result)
        for name, flags in vars(trace.flags).items():
            np.testing.assert_array_equal(arrays[name], flags)
            assert written["flags"][name] == flags.tolist()
    bits = trace.result.view(np.uint32)
    assert written["bits"] == [[f"0x{int(n):08x}" for n in row] for row in bits]
    assert written["result"] == trace.result.tolist()
    assert "quantised to e4m3, nearest even, scales of 1" in written["a"]
    assert f"0 1         {trace.result[0, 1]!s:16}0x{int(bits[0, 1]):08x}  inexact\n" in text
    status, text, _ = run(capsys, "compute", "--machine", "h100-fp8", *operands, "--json")
    assert json.loads(text) == written


def test_nan_and_infinity(capsys, tmp_path):
    np.save(tmp_path / "x.npy", np.array([[np.nan] * 32, [np.inf] * 32], np.float32))
    arguments = ["--machine", "a100-bf16", tmp_path / "x.npy", "--json", tmp_path / "x.json"]
    status, text, _ = run(capsys, "compute", *arguments)
    assert status == 0
    assert json.loads((tmp_path / "x.json").read_text())["result"][0] == ["nan", "nan"]
    assert "flags: invalid 3" in text


def test_many_results_are_cut(capsys, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((6, 32), np.float32))
    _, text, _ = run(capsys, "compute", "--machine", "v100-fp16", tmp_path / "x.npy")
    assert text.endswith("... 4 more: -o FILE and --json FILE write all\n")
    assert len(re.findall("0x42000000", text)) == 32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--machine h100 a.npy", "machine must be one of `mxdot machines`, not 'h100'; H100 has"),
        ("--machine hoper a.npy", "machine must be one of `mxdot machines`, not 'hoper'; nearest:"),
        ("--machine aligned:3 a.npy", "machine must be one of `mxdot machines`, not 'aligned:3'"),
        ("--accumulator alined:3 a.npy", "accumulator must be one of exact,"),
        ("--machine ada a.npy b.npy a.npy", "FILE must be one file or two, not 3"),
        ("--machine ada abc.npz", "abc.npz: name must choose one of x, w, c"),
        ("--machine ada abc.npz --name x v", "abc.npz: name must be one of x, w, c, not 'v'"),
        ("--machine ada ab.npz --name x w x", "name must give 1 or 2 tensors, not 3"),
        ("--machine ada ab.npz ab.npz --name x", "name must give 2 tensors, not 1"),
        ("--machine ada none.npz", "none.npz: must hold an array, not none"),
        ("--machine ada a.npy transposed.npy", "a and b must have equal last axes, not 64 and 3; "),
        (
            "--machine ada a.npy b.npy --transpose",
            "b must have as many rows as a has columns, 64, not 3; without --transpose b is (N, K)",
        ),
        (
            "--machine ada codes.npy --format e4m3 --scales block",
            "scales block is for values, and a and b hold codes",
        ),
        (
            "--accumulator exact codes.npy --format e4m3 --scale-rule ceil",
            "scale-rule is for values, and a and b hold codes",
        ),
        ("--machine ada c.npy", "c.npy must have one axis or two, and elements, not shape ()"),
        ("--machine ada codes.npy", "format must be given for codes in codes.npy, uint8, 2 x 64"),
        ("--machine ada a.npy --format e9", "formats must be one of e4m3,"),
        ("--machine ada a.npy --format e4m3,e5m2", "format must be one format or pair, not"),
        ("--machine ada a.npy --scales some", "scales must be block, none, or two files, not some"),
        ("--machine ada a.npy --scales scales.npy scales.npy", "scales of a file are for codes,"),
        (
            "--machine ada codes.npy --format e4m3 --block 16 --scales scales.npy scales.npy",
            "scales of codes.npy must have shape (2, 4), not (2, 2)",
        ),
        ("--machine ada a.npy --scale-rule ceil", "scale-rule is for --scales block, not for none"),
        ("--machine ada a.npy --scale-format e4m3", "scale-format is for --scales FILE FILE, not"),
        (
            "--accumulator exact a.npy --scale-rule flor",
            "scale-rule must be one of floor, ceil, even, twice, not 'flor'; nearest: floor",
        ),
        ("--machine ada a.npy --block 0", "block must be from 1 to 65536, not 0"),
        ("--machine ada a.npy -o a.csv", "output must end with .npz or .npy, not "),
        ("--machine ada --accumulator exact a.npy", "argument --accumulator: not allowed with"),
        ("a.npy", "one of the arguments --machine --accumulator is required"),
        (
            "--machine ada --scales block a.npy b.npy",
            "the following arguments are required: FILE; --scales takes all words after it, so",
        ),
    ],
)
def test_wrong_usage_is_one_line(capsys, files, monkeypatch, arguments, message):
    monkeypatch.chdir(files)
    assert refusal(capsys, "compute", *arguments.split()).startswith(message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.npy", "no such file"),
        ("none.npz", "no such file"),
        ("none.safetensors", "no such file"),
        ("none.gguf", "no such file"),
        ("none", "no such file"),
        (
            "text.txt",
            "must be a file .npz, .npy, .safetensors or .gguf, or a folder of safetensors files",
        ),
        ("folder", "it must hold safetensors files, not none"),
    ],
)
def test_what_holds_no_tensors(capsys, tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("1 2 3")
    (tmp_path / "folder").mkdir()
    assert refusal(capsys, "compute", "--machine", "ada", name) == f"{name}: {message}"


def test_every_machine_takes_its_first_operands(capsys, files):
    for name, machine in MACHINES.items():
        status, out, err = run(capsys, "compute", "--machine", name, files / "ab.npz")
        assert (status, err) == (0, "")
        assert out.startswith(f"accumulator {name}")
        assert f" {machine.operands[0].split('x')[0]}, " in out


def test_the_list_of_machines(capsys, tmp_path):
    path = tmp_path / "machines.json"
    status, out, _ = run(capsys, "machines", "--json", path)
    assert status == 0
    assert max(map(len, out.splitlines())) <= 100
    assert re.findall(r"^(\w[\w-]*)  +\S", out, re.M) == list(MACHINES)
    rows = json.loads(path.read_text())["machines"]
    assert [row["name"] for row in rows] == list(MACHINES)
    assert rows[0]["hardware"] == ["H100", "H200"]
    assert rows[0]["rule"] == MACHINES["hopper"].rule
    assert [row["block_scales"] for row in rows] == [m.block_scales for m in MACHINES.values()]


@pytest.mark.parametrize(
    ("name", "machines"),
    [
        ("h100-fp8", ["hopper"]),
        ("ADA", ["ada"]),
        ("mi300x", ["cdna3-fp16", "cdna3-xf32", "cdna3-fp8"]),
        ("RTX 4090", [name for name in MACHINES if name.split("-")[0] == "ada"]),
    ],
)
def test_machines_by_name_and_hardware(capsys, name, machines):
    _, out, _ = run(capsys, "machines", name, "--json")
    assert [row["name"] for row in json.loads(out)["machines"]] == machines
    _, out, _ = run(capsys, "machines", name)
    for machine in machines:
        assert MACHINES[machine].source.split()[0] in out


def test_unknown_hardware(capsys):
    assert refusal(capsys, "machines", "mi300") == (
        "name must be a machine or hardware of `mxdot machines`, not 'mi300'; "
        "nearest: mi300x, mi300a, mi100"
    )


def test_the_page_prints_what_it_says(capsys, tmp_path, monkeypatch):
    """docs/compute.md, block by block; every command that a block of output follows."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGES["compute.md"], flags=re.S | re.M)
    printed = 0
    for (kind, text), (after, output) in pairwise([*blocks, ("", "")]):
        if kind == "python":
            exec(compile(text, "compute.md", "exec"), {})
        elif kind == "sh":
            status, out, err = run(capsys, *shlex.split(text)[1:])
            assert (status, err) == (0, "")
            if not after and output:
                assert out == output
                printed += 1
    assert printed == 3
