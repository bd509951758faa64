"""The matrix unit's configuration, its streams as bytes and its register map."""

import re

import numpy as np
import pytest

from matmul_records import operand, step
from mxdot.model import DotConfig, MXArray, matmul, quantize
from mxdot.model.units.matmul.config import MatmulConfig, Tiles
from mxdot.model.units.matmul.layout import (
    golden,
    ignored_bits,
    pack_a,
    pack_b,
    pack_c,
    pack_d,
    unpack_c,
)
from mxdot.model.units.matmul.registers import (
    COUNTERS,
    REGISTERS,
    constants,
    fields,
    word,
)
from mxdot.model.units.matmul.widths import check_array

DOT = DotConfig("e4m3", lanes=4)
WIDE = DotConfig("e4m3", lanes=128)
NEGATIVE = np.full((2, 4), 0xB8, np.uint8)
"""E4M3 scales of -1."""
SMALL = MatmulConfig(DOT, rows=2, columns=3, depth=4)


NVFP4 = MatmulConfig(DotConfig("e2m1", 16, "fused:13", scales="e4m3", scale_block=4), 2, 3, 4)


# Configuration ------------------------------------------------------------------------------------


def test_defaults():
    config = MatmulConfig()
    assert (config.rows, config.columns, config.depth, config.dot.lanes) == (8, 8, 32, 32)
    assert (config.a_bytes, config.b_bytes, config.c_bytes) == (8 * 33, 8 * 33, 8 * 4)
    assert not config.dot.load_c
    assert config.inputs == ("a", "b")
    assert str(config) == "8x8 depth 32 of e4m3 aligned:13 x32 stages 4 no-c"


def test_b_is_kept_up_to_two_buffers():
    config = MatmulConfig(DOT, rows=2, columns=3, depth=4, keep_b=True)
    assert config.keeps_b(Tiles(5, 2, 4))
    assert not config.keeps_b(Tiles(5, 3, 3))
    assert not SMALL.keeps_b(Tiles(5, 1, 1))


@pytest.mark.parametrize("initial_c", [False, True])
def test_buffers_hold_steps_and_tiles(initial_c):
    """Twice `depth` steps of 2 rows and 3 columns of 4 codes and a scale; 8 tiles where 6 turn."""
    turns = DotConfig("e4m3", lanes=4, interleave=6)
    config = MatmulConfig(turns, rows=2, columns=3, depth=4, initial_c=initial_c)
    assert (SMALL.buffered_tiles, config.buffered_tiles) == (0, 8)
    steps = 2 * 4 * 8 * (2 + 3) * (4 + 1)
    assert SMALL.memory_bits == steps
    assert config.memory_bits == steps + 8 * 2 * 3 * (32 + 32 * initial_c)


def test_the_arguments_make_the_same_unit():
    dot = DotConfig("e5m2xe4m3,int8", 8, "fused:25", 3, "bfloat16", status=False)
    config = MatmulConfig(dot, 3, 5, 64, 7, 11, 13, 17, initial_c=True)
    arguments = config.arguments
    again = MatmulConfig(DotConfig(**arguments.pop("dot")), **arguments)
    assert again == config
    assert str(config).startswith(
        "3x5 depth 64 a-bytes 7 b-bytes 11 d-bytes 17 c-bytes 13 initial-c"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": 0}, "rows must be from 1 to 64, not 0"),
        ({"rows": 65}, "rows must be from 1 to 64, not 65"),
        ({"columns": 1.0}, "columns must be an integer from 1 to 64, not 1.0"),
        ({"depth": 2}, "depth must be from 4 to 1024, not 2"),
        ({"depth": 12}, "depth must be a power of two from 4 to 1024, not 12"),
        # Steps of A and B have 264 bytes, rows of C and D 32.
        ({"a_bytes": 0}, "a_bytes must be from 1 to 7252, not 0"),
        ({"b_bytes": 16384}, "b_bytes must be from 1 to 7252, not 16384"),
        ({"b_bytes": 7253, "initial_c": True}, "b_bytes must be from 1 to 7251, not 7253"),
        ({"d_bytes": 16384, "initial_c": True}, "d_bytes must be from 1 to 7251, not 16384"),
        ({"d_bytes": 0}, "d_bytes must be from 1 to 7253, not 0"),
        ({"c_bytes": 4065}, "c_bytes must be from 1 to 4064, not 4065"),
        ({"c_bytes": 1.5}, "c_bytes must be an integer from 1 to 4064, not 1.5"),
        (
            {"a_bytes": 5000, "b_bytes": 5001},
            "b_bytes beside 5000 of others must be from 1 to 2253, not 5001",
        ),
        # 32 x 64 results of 32 bits are 65,536 bits.
        ({"rows": 32, "columns": 64}, "rows beside 64 columns must be from 1 to 31, not 32"),
        # A step of 64 blocks of 128 has 66,048 bits.
        ({"dot": WIDE, "rows": 1, "columns": 64}, "columns must be from 1 to 56, not 64"),
        # Such a step has 4,128 bytes: a register to convert it would hold twice as many.
        (
            {"dot": WIDE, "rows": 32, "columns": 1, "a_bytes": 1},
            "a_bytes must be 4128, a whole step, not 1",
        ),
        ({"initial_c": 1}, "initial_c must be True or False, not 1"),
        ({"dot": "e4m3"}, "dot must be a DotConfig, not 'e4m3'"),
        (
            {"dot": DotConfig("int8", accumulator="int32", out="int32")},
            "dot must be a unit of float results without micro-exponents, not of int32 results",
        ),
        (
            {"dot": DotConfig("int8", accumulator="exact", micro=True)},
            "dot must be a unit of float results without micro-exponents, not of micro-exponents",
        ),
        (
            {"dot": DotConfig(gate_idle=True)},
            (
                "gate_idle in a matmul unit must be False, not True: its buffers hold the operands "
                "still"
            ),
        ),
    ],
)
def test_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(message)}$"):
        MatmulConfig(**arguments)


@pytest.mark.parametrize("interleave", [1, 2, 3, 4, 5, 8, 16])
@pytest.mark.parametrize("stages", [3, 5, 8])
def test_a_last_group_keeps_the_loop_busy_where_there_is_room(stages, interleave):
    """Groups are as large as they can be while the last one still fills the loop."""
    dot = DotConfig("e4m3", 4, "aligned:13", stages, interleave=interleave)
    config = MatmulConfig(dot, rows=2, columns=1, depth=4)
    rows = [config.groups(tiles) for tiles in range(interleave, 8 * interleave)]
    assert [sum(row) for row in rows] == [*range(interleave, 8 * interleave)]
    assert {size for row in rows for size in row[:-1]} <= {config.group}
    last = [row[-1] for row in rows]
    assert max(last) == interleave
    if interleave >= 2 * dot.interval - 1:
        assert min(last) == dot.interval
    else:
        assert config.group == min(interleave, dot.interval)


def test_beats_of_c_have_room_beside_those_of_b():
    """196 columns need 7252 bytes of B and one each of A and C; the limit is 7253."""
    sizes = {"record_a": 37, "record_b": 37, "out_bits": 32}
    check_array(1, 196, **sizes, c_bits=0)
    with pytest.raises(ValueError, match=r"^columns must be from 1 to 195, not 196$"):
        check_array(1, 196, **sizes, c_bits=32)


def test_a_step_has_at_most_8160_bytes():
    long = {"record_a": 4080, "out_bits": 32, "c_bits": 0}
    check_array(1, 1, **long, record_b=4080)
    with pytest.raises(ValueError, match=r"^columns must be from 1 to 0, not 1$"):
        check_array(1, 1, **long, record_b=4081)


def test_tiles():
    assert SMALL.tiles(1, 1, 4) == Tiles(1, 1, 1)
    assert SMALL.tiles(4, 7, 20) == Tiles(2, 3, 5)
    assert SMALL.tiles(2 * 65535, 3, 4 * 65535) == Tiles(65535, 1, 65535)
    assert Tiles(2, 3, 5).steps == 30
    for sizes, message in (
        ((0, 1, 4), "m must be from 1 to 131070, not 0"),
        ((2 * 65535 + 1, 1, 4), "m must be from 1 to 131070, not 131071"),
        ((1, 1, 6), "k must be a multiple of the 4 lanes, not 6"),
    ):
        with pytest.raises(ValueError, match=message):
            SMALL.tiles(*sizes)


def test_bytes_by_hand():
    """2 x 3 units of 4 lanes: a step is 2 x 5 bytes of A and 3 x 5 of B, a tile 2 x 3 x 4 of C."""
    short, long = Tiles(2, 3, 4), Tiles(2, 3, 5)  # depth is 4
    assert SMALL.bytes_of("a", short) == 2 * 4 * 10
    assert SMALL.bytes_of("a", long) == 2 * 3 * 5 * 10
    assert SMALL.bytes_of("b", short) == 2 * 3 * 4 * 15
    assert SMALL.bytes_of("b", long) == 2 * 3 * 5 * 15
    assert SMALL.bytes_of("c", long) == SMALL.bytes_of("d", short) == 2 * 3 * 24


# Streams ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("blocks", "kept"), [(1, True), (4, True), (5, False), (9, False)])
@pytest.mark.parametrize(
    "formats",
    ["e4m3", "e2m1xe3m2", "e2m1,e2m3xe5m2,int8xe3m2", "int5", "int3xtf32,bf16xe4m3,int5xint3"],
)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (5, 7)])
def test_every_record_is_where_the_order_of_work_says(blocks, kept, formats, m, n):
    """Written out as loops, one record after the other."""
    config = MatmulConfig(DotConfig(formats, lanes=4), rows=2, columns=3, depth=4)
    rng = np.random.default_rng(blocks)
    for pair in config.dot.formats:
        a, b = operand(rng, pair[0], m, blocks), operand(rng, pair[1], n, blocks)
        want_a, want_b = b"", b""
        tiles = config.tiles(m, n, blocks * 4)
        for i in range(tiles.m_tiles):
            for j in range(tiles.n_tiles):
                for kb in range(blocks):
                    if j == 0 or not kept:
                        want_a += step(a, config.dot.bits_a, range(2 * i, 2 * i + 2), kb)
                    want_b += step(b, config.dot.bits_b, range(3 * j, 3 * j + 3), kb)
        assert pack_a(a, config, n) == want_a
        assert pack_b(b, config, m) == want_b
        assert len(want_a) == config.bytes_of("a", tiles)
        assert len(want_b) == config.bytes_of("b", tiles)


def test_what_fills_up_blocks():
    """20 bits of INT5 and 76 of TF32; E4M3 scales have 7 of 8 bits."""
    config = MatmulConfig(DotConfig("int5xtf32", 4, "fused:13", scales="e4m3"), 1, 1)
    assert ignored_bits(config, "a").tolist() == [0, 0, 0xF0, 0x80]
    assert ignored_bits(config, "b").tolist() == [*[0] * 9, 0xF0, 0x80]
    assert not ignored_bits(MatmulConfig(DotConfig("int5xtf32", 8), 1, 1), "a").any()


@pytest.mark.contract("U5")
def test_a_block_of_several_scales():
    """16 codes of 4 bits, then four scales of a byte each, that of lane 0 first."""
    x = operand(np.random.default_rng(3), NVFP4.dot.formats[0][0], 2, 4 * 3, scales=range(128))
    got = np.frombuffer(pack_a(x, NVFP4, 1), np.uint8).reshape(3, 2, 12)
    assert NVFP4.record_bytes("a") == 12
    for kb in range(3):
        for row in range(2):
            codes = x.codes[row, 16 * kb : 16 * (kb + 1)]
            assert got[kb, row, :8].tolist() == (codes[0::2] | codes[1::2] << 4).tolist()
            assert got[kb, row, 8:].tolist() == x.scales[row, 4 * kb : 4 * (kb + 1)].tolist()


@pytest.mark.contract("U5")
def test_golden_under_e4m3_scales():
    """The result equals one dot product after another; a NaN scale makes its row NaN."""
    rng = np.random.default_rng(4)
    fmt = NVFP4.dot.formats[0][0]
    a, b = (operand(rng, fmt, rows, 8, scales=range(127)) for rows in (3, 4))
    got = golden(a, b, NVFP4).result
    rows_a, rows_b = np.divmod(np.arange(12), 4)
    left, right = (
        MXArray(x.codes[rows], x.scales[rows], fmt, 4) for x, rows in ((a, rows_a), (b, rows_b))
    )
    want = NVFP4.dot.dot(left, right).result.reshape(3, 4)
    assert np.array_equal(got, want)
    assert np.array_equal(matmul(a, b, "fused:13", scale_format="e4m3"), want)
    scales = np.array(a.scales)
    scales[1, 5] = 127
    nan = np.isnan(golden(MXArray(a.codes, scales, fmt, 4), b, NVFP4).result)
    assert nan.all(axis=1).tolist() == nan.any(axis=1).tolist() == [False, True, False]


def test_registers_tell_of_scales():
    array, version = (constants(NVFP4)[name] for name in ("ARRAY", "VERSION"))
    assert (array["scales"], array["e4m3"], version["major"]) == (4, 1, 3)
    array, version = (constants(SMALL)[name] for name in ("ARRAY", "VERSION"))
    assert (array["scales"], array["e4m3"], version["major"]) == (0, 0, 1)


@pytest.mark.parametrize("out", ["float32", "bfloat16", "float16"])
def test_c_is_cut_out_of_its_tiles(out):
    config = MatmulConfig(DotConfig(lanes=4, out=out), rows=2, columns=3, depth=4)
    c = np.arange(1, 36).reshape(5, 7).astype(config.out.dtype)
    data = pack_c(c, config)
    assert len(data) == config.bytes_of("c", config.tiles(5, 7, 4))
    assert np.array_equal(unpack_c(data, config, 5, 7), c)
    tile = np.frombuffer(data, config.out.dtype).reshape(-1, 2, 3)
    assert tile[1].astype(float).tolist() == [[4, 5, 6], [11, 12, 13]]
    assert tile[-1].astype(float).tolist() == [[35, 0, 0], [0, 0, 0]]


def test_d_has_the_layout_of_c_in_float32():
    config = MatmulConfig(DotConfig(lanes=4, out="bfloat16"), rows=2, columns=3, initial_c=True)
    d = np.arange(35, dtype=np.float32).reshape(5, 7)
    as_c = MatmulConfig(DotConfig(lanes=4), rows=2, columns=3)
    assert pack_d(d, config) == pack_c(d, as_c)


def test_golden_is_the_model_with_the_flags_of_padding():
    rng = np.random.default_rng(0)
    config = MatmulConfig(DotConfig("e5m2", 4, "exact"), rows=2, columns=2, initial_c=True)
    a = quantize(rng.standard_normal((3, 8), np.float32), "e5m2", block_size=4)
    b = quantize(rng.standard_normal((2, 8), np.float32), "e5m2", block_size=4)
    d = rng.standard_normal((3, 2), np.float32)
    got = golden(a, b, config, d)
    assert np.array_equal(got.result, matmul(a, b, "exact", d))
    assert got.flags == 0b01000
    # An infinity of B meets the zeros of the row that fills the last tile.
    codes = np.array(b.codes)
    codes[0, 0] = 0x7C
    infinite = MXArray(codes, b.scales, "e5m2", 4)
    assert golden(a, infinite, config).flags & 1
    assert not golden(MXArray(a.codes[:2], a.scales[:2], "e5m2", 4), infinite, config).flags & 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: golden(a, a, SMALL, np.zeros((3, 3), np.float32)), "d must be None: this unit"),
        (lambda a: pack_d(np.zeros((3, 3), np.float32), SMALL), "d must be None: this unit"),
        (
            lambda _: pack_a(quantize(np.ones((2, 8), np.float32), "e4m3", block_size=8), SMALL, 1),
            "block_size of a must be the 4 lanes, not 8",
        ),
        (
            lambda _: pack_b(quantize(np.ones((2, 8), np.float32), "e5m2", block_size=4), SMALL, 1),
            "format of b must be one of e4m3, not e5m2",
        ),
        (
            lambda _: pack_a(
                quantize(np.ones((2, 16), np.float32), "e2m1", block_size=16), NVFP4, 1
            ),
            "block_size of a must be the 4 of the unit's scale_block, not 16",
        ),
        (
            lambda _: pack_b(MXArray(np.zeros((2, 16), np.uint8), NEGATIVE, "e2m1", 4), NVFP4, 1),
            "scales of b must be e4m3 codes from 0 to 127, not 184",
        ),
        (
            lambda a: matmul(a, a, "exact", lanes=4, scale_format="e4m3"),
            "scale_format must be e8m0 but for two MXArrays whose lanes are None, not e4m3",
        ),
        (lambda _: unpack_c(bytes(23), SMALL, 2, 3), "data must be 24 bytes long for C (2, 3)"),
    ],
)
def test_operands_refused(call, message):
    a = quantize(np.ones((3, 8), np.float32), "e4m3", block_size=4)
    with pytest.raises(ValueError, match=re.escape(message)):
        call(a)


# Registers ----------------------------------------------------------------------------------------


def test_no_two_fields_share_a_bit_and_no_two_registers_a_word():
    offsets = [register.offset for register in REGISTERS.values()]
    assert offsets == sorted(set(offsets))
    assert all(offset % 4 == 0 and offset < 256 for offset in offsets)
    for register in REGISTERS.values():
        masks = [field.mask for field in register.fields]
        assert all(masks)
        assert sum(masks) == np.bitwise_or.reduce(masks)
        assert sum(masks) < 2**32


def test_counters_have_two_words():
    for name in COUNTERS:
        low, high = REGISTERS[name].fields, REGISTERS[f"{name}_HIGH"].fields
        assert [field.mask for field in (*low, *high)] == [2**32 - 1, 2**16 - 1]


def test_words_by_hand():
    assert {name: REGISTERS[name].offset for name in ("ID", "CONTROL", "STATUS", "K_BLOCKS")} == {
        "ID": 0x00,
        "CONTROL": 0x20,
        "STATUS": 0x24,
        "K_BLOCKS": 0x34,
    }
    values = constants(SMALL)
    assert word(REGISTERS["ID"], values["ID"]).to_bytes(4, "big") == b"MXDT"
    assert word(REGISTERS["ARRAY"], values["ARRAY"]) == 0x00040302
    assert word(REGISTERS["BYTES_AB"], values["BYTES_AB"]) == 15 << 16 | 10
    assert word(REGISTERS["FEATURES"], values["FEATURES"]) == 1 << 16 | 4 << 8 | 0b10
    assert fields(REGISTERS["ELEMENTS"], 0x01200808) == {"a": 8, "b": 8, "c": 32, "formats": 1}


def test_every_constant_fits_its_field_in_the_largest_unit():
    for largest in (
        MatmulConfig(WIDE, 1, 31, 1024, 7000, 100, 4000, 100, initial_c=True),
        MatmulConfig(DOT, 64, 31, 1024, 100, 7000),
        MatmulConfig(DOT, 30, 64, 1024, 100, 100, 100, 6000, initial_c=True),
    ):
        for name, values in constants(largest).items():
            register = REGISTERS[name]
            assert fields(register, word(register, values)) == values


def test_places_of_fields():
    array = {field.name: field.bits for field in REGISTERS["ARRAY"].fields}
    assert array == {
        "rows": "7:0", "columns": "15:8", "lanes": "23:16", "scales": "29:24", "e4m3": "30",
    }  # fmt: skip


def test_bytes_of_codes_and_their_eight_scales():
    dot = DotConfig("e2m1", 128, "blackwell", scale_block=16)
    assert MatmulConfig(dot, 1, 1).record_bytes("a") == 64 + 8
