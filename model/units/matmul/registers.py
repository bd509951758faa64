"""The register map of a matrix unit as data: for the RTL, its bench and the documentation.

32-bit words, little-endian, at byte offsets. Access: ``ro`` read, ``rw`` read and write, ``w1c``
read and cleared by writing 1, ``w`` written, reads 0.
"""

from dataclasses import dataclass

from ...formats import E4M3
from ...trace import FLAG_NAMES
from .config import LARGEST_COUNT, MatmulConfig

ADDRESS_BITS = 8
COUNTER_BITS = 48
IDENTITY = int.from_bytes(b"MXDT", "big")
VERSION = (1, 0)
"""Version of this map: the first number changes when software must."""
STREAMS_VERSION = (2, 0)
"""Version with `interleave` or `keep_b`: software must send A or B in another way."""
SCALES_VERSION = (3, 0)
"""Version with other scales than one E8M0 per block: the layout of blocks differs too."""
SCALE_FIELDS = ("scales", "e4m3")
"""Fields of ARRAY that are 0 except in units of `SCALES_VERSION`."""

STREAM_ERRORS = {
    "early_last": "TLAST came before the last byte",
    "late_last": "TLAST did not come with the last byte",
    "keep": "TKEEP with a gap, not all ones before TLAST, or no byte in the beat with TLAST",
}
START_ERRORS = {
    "bad_shape": "start with M_TILES, N_TILES or K_BLOCKS zero",
    "bad_format": "start with a FORMAT that the unit has not",
    "bad_option": "start with use_d in a unit without a stream D",
    "busy_start": "start while busy; the job goes on",
}
WRITE_ERRORS = {
    "busy_write": "M_TILES ... OPTIONS written while busy; they keep their values",
    "bad_value": "a one written above the bits of a rw register; it keeps its value",
}
"""Both answer SLVERR; a start that is refused answers OKAY."""


@dataclass(frozen=True)
class Field:
    """Bits `low` to `low + width - 1` of a register."""

    name: str
    low: int
    width: int
    access: str
    meaning: str

    @property
    def mask(self) -> int:
        """The field's ones, in place."""
        return (2**self.width - 1) << self.low

    @property
    def bits(self) -> str:
        """Its place as text: ``3`` or ``15:8``."""
        return f"{self.low + self.width - 1}:{self.low}" if self.width > 1 else str(self.low)


@dataclass(frozen=True)
class Register:
    """One word; `fields` from the lowest up. Bits of no field read 0."""

    name: str
    offset: int
    fields: tuple[Field, ...]
    meaning: str

    def field(self, name: str) -> Field:
        """The field of this name; KeyError for an unknown one."""
        return {field.name: field for field in self.fields}[name]

    @property
    def written(self) -> bool:
        """Whether a write is accepted."""
        return any(field.access != "ro" for field in self.fields)


def _fields(access: str, *items: tuple[str, int, str]) -> tuple[Field, ...]:
    """Fields of (name, width, meaning) one above the other; one of 8 bits starts a byte."""
    fields, low = [], 0
    for name, width, meaning in items:
        low = -(-low // 8) * 8 if width % 8 == 0 else low
        fields.append(Field(name, low, width, access, meaning))
        low += width
    return tuple(fields)


def _status() -> tuple[Field, ...]:
    fields = [
        Field("busy", 0, 1, "ro", "a job runs, or an error is being cleared up"),
        Field(
            "done",
            1,
            1,
            "w1c",
            "a job ended and all of C was taken; cleared by a start too, refused or not",
        ),
    ]
    names = [*START_ERRORS.items(), *WRITE_ERRORS.items()]
    for side in ("a", "b", "d"):
        names += [(f"{side}_{name}", text) for name, text in STREAM_ERRORS.items()]
    for low, (name, meaning) in enumerate(names, 8):
        fields.append(Field(name, low, 1, "w1c", meaning))
    return tuple(fields)


COUNTERS = {
    "CYCLES": "cycles from the start to the last beat of C: those of STEPS to TAIL",
    "STEPS": "cycles in which the array took a step",
    "WAIT_A": "cycles without a step: none of A there",
    "WAIT_B": "cycles without a step: A there, none of B",
    "WAIT_D": "cycles without a step: A and B there, the tile's initial C not",
    "WAIT_DRAIN": "cycles without a step: results not yet sent block the array",
    "WAIT_UNIT": "cycles without a step: the dot units' interval",
    "TAIL": "cycles after the last step, in which the last results are sent",
    "DISCARDED_A": "bytes of A thrown away after an error",
    "DISCARDED_B": "bytes of B thrown away after an error",
    "DISCARDED_D": "bytes of D thrown away after an error",
}
"""48 bits, which wrap, in two words, the low one first; a start that is accepted clears them."""
COUNTER_BASE = 0x80
CONFIGURED = {"M_TILES", "N_TILES", "K_BLOCKS", "FORMAT", "OPTIONS"}
"""Registers that describe a job: no write changes them while one runs."""


def _registers() -> tuple[Register, ...]:
    words: list[tuple[str, tuple[Field, ...], str]] = [
        ("ID", _fields("ro", ("id", 32, '"MXDT" in ASCII')), "what this is"),
        (
            "VERSION",
            _fields("ro", ("minor", 16, "compatible change"), ("major", 16, "incompatible change")),
            "version of this map",
        ),
        (
            "ARRAY",
            _fields(
                "ro",
                ("rows", 8, "rows"),
                ("columns", 8, "columns"),
                ("lanes", 8, "lanes"),
                ("scales", 6, "scales of a block, 0 for one E8M0"),
                ("e4m3", 1, "they are E4M3"),
            ),
            "the array; lanes are the block size",
        ),
        ("DEPTH", _fields("ro", ("depth", 16, "in blocks of K")), "length up to which A is kept"),
        (
            "ELEMENTS",
            _fields(
                "ro",
                ("a", 8, "bits of an element of A"),
                ("b", 8, "bits of an element of B"),
                ("c", 8, "bits of a result"),
                ("formats", 8, "number of format pairs"),
            ),
            "widths in the streams",
        ),
        (
            "FEATURES",
            _fields(
                "ro",
                ("initial_c", 1, "the unit has a stream D"),
                ("status", 1, "the results' flags come in FLAGS"),
                ("interleave", 5, "tiles that can take turns, 0 where none do"),
                ("keep_b", 1, "B is sent once where 2 x depth steps hold it"),
                ("latency", 8, "cycles from a step to its results"),
                ("interval", 8, "cycles between steps of a tile"),
                ("group", 8, "tiles of a group but the last of a row, 0 where none take turns"),
            ),
            "what the unit has",
        ),
        (
            "BYTES_AB",
            _fields("ro", ("a", 16, "of stream A"), ("b", 16, "of stream B")),
            "bytes of TDATA",
        ),
        (
            "BYTES_CD",
            _fields("ro", ("c", 16, "of stream C"), ("d", 16, "of stream D, 0 without")),
            "bytes of TDATA",
        ),
        (
            "CONTROL",
            _fields("w", ("start", 1, "start a job"), ("reset", 1, "end everything at once")),
            "commands; both at once are a reset",
        ),
        ("STATUS", _status(), "state and sticky errors"),
        (
            "IRQ_ENABLE",
            _fields("rw", ("done", 1, "done raises irq"), ("error", 1, "an error raises irq")),
            "irq is high while an enabled bit of STATUS is",
        ),
        ("M_TILES", _fields("rw", ("count", 16, f"1 to {LARGEST_COUNT}")), "rows of C / rows"),
        (
            "N_TILES",
            _fields("rw", ("count", 16, f"1 to {LARGEST_COUNT}")),
            "columns of C / columns",
        ),
        ("K_BLOCKS", _fields("rw", ("count", 16, f"1 to {LARGEST_COUNT}")), "K / lanes"),
        (
            "FORMAT",
            _fields("rw", ("mode", 8, "index of the format pair, in the order of --format")),
            "formats of A and B",
        ),
        ("OPTIONS", _fields("rw", ("use_d", 1, "C starts at D, not at 0")), "of a job"),
        (
            "FLAGS",
            _fields("ro", *((name, 1, "a result raised it") for name in FLAG_NAMES)),
            "or of all results' flags since the start, those of padding too",
        ),
    ]
    registers = [
        Register(name, 4 * index, fields, meaning)
        for index, (name, fields, meaning) in enumerate(words)
    ]
    for index, (name, meaning) in enumerate(COUNTERS.items()):
        offset = COUNTER_BASE + 8 * index
        high = _fields("ro", ("count", COUNTER_BITS - 32, "its high bits"))
        registers += [
            Register(name, offset, _fields("ro", ("count", 32, "its low bits")), meaning),
            Register(f"{name}_HIGH", offset + 4, high, f"high word of {name}"),
        ]
    return tuple(registers)


REGISTERS = {register.name: register for register in _registers()}


def constants(config: MatmulConfig) -> dict[str, dict[str, int]]:
    """The values of the registers that tell what unit this is, by register and field."""
    dot = config.dot
    turns = dot.interleave > 1
    major, minor = STREAMS_VERSION if turns or config.keep_b else VERSION
    scales: dict[str, int] = dict.fromkeys(SCALE_FIELDS, 0)
    if dot.has_own_scales:
        major, minor = SCALES_VERSION
        scales = {"scales": dot.scale_blocks, "e4m3": int(dot.scales == E4M3.name)}
    return {
        "ID": {"id": IDENTITY},
        "VERSION": {"minor": minor, "major": major},
        "ARRAY": {"rows": config.rows, "columns": config.columns, "lanes": dot.lanes} | scales,
        "DEPTH": {"depth": config.depth},
        "ELEMENTS": {
            "a": dot.bits_a,
            "b": dot.bits_b,
            "c": dot.out.bits,
            "formats": len(dot.formats),
        },
        "FEATURES": {
            "initial_c": int(config.initial_c),
            "status": int(dot.status),
            "interleave": dot.interleave if turns else 0,
            "keep_b": int(config.keep_b),
            "latency": dot.latency,
            "interval": dot.interval,
            "group": config.group if turns else 0,
        },
        "BYTES_AB": {"a": config.a_bytes, "b": config.b_bytes},
        "BYTES_CD": {"c": config.c_bytes, "d": config.d_bytes if config.initial_c else 0},
    }


def word(register: Register, values: dict[str, int]) -> int:
    """The register's word with these values in its fields, 0 in the others."""
    return sum(value << register.field(name).low for name, value in values.items())


def fields(register: Register, value: int) -> dict[str, int]:
    """The values of the fields in a word of the register."""
    return {field.name: (value & field.mask) >> field.low for field in register.fields}
