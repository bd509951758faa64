"""C99: one header without dependencies; wide integers are arrays of 32-bit words."""

from .printer import LARGEST_PLAIN, Printer
from .program import BOOL, INT, WIDE, Function

_WIDE = """
/* Integers of WIDE bits in two's complement, least word first. */
typedef struct { uint32_t word[@WORDS]; } @wide_t;

static inline @wide_t @wide(int64_t x) {
  @wide_t r;
  int i;
  for (i = 0; i < @WORDS; i++) r.word[i] = x < 0 ? UINT32_MAX : 0;
  r.word[0] = (uint32_t)(uint64_t)x;
  r.word[1] = (uint32_t)((uint64_t)x >> 32);
  return r;
}

static inline int64_t @narrow(@wide_t x) {
  return (int64_t)((uint64_t)x.word[1] << 32 | x.word[0]);
}

static inline @wide_t @sum(@wide_t x, @wide_t y, int subtract) {
  uint64_t carry = (uint64_t)subtract;
  int i;
  for (i = 0; i < @WORDS; i++) {
    carry += (uint64_t)x.word[i] + (subtract ? ~y.word[i] : y.word[i]);
    x.word[i] = (uint32_t)carry;
    carry >>= 32;
  }
  return x;
}

static inline @wide_t @shifted_left(@wide_t x, int64_t count) {
  @wide_t r;
  int i, words = count >= 32 * @WORDS ? @WORDS : (int)(count / 32), bits = (int)(count % 32);
  for (i = @WORDS - 1; i >= 0; i--) {
    uint64_t pair = i >= words ? (uint64_t)x.word[i - words] << 32 : 0;
    if (i > words) pair |= x.word[i - words - 1];
    r.word[i] = (uint32_t)((pair << bits) >> 32);
  }
  return r;
}

static inline @wide_t @shifted_right(@wide_t x, int64_t count) {
  @wide_t r;
  int i, words = count >= 32 * @WORDS ? @WORDS : (int)(count / 32), bits = (int)(count % 32);
  for (i = 0; i < @WORDS; i++) {
    uint64_t pair = i + words < @WORDS ? x.word[i + words] : 0;
    if (i + words + 1 < @WORDS) pair |= (uint64_t)x.word[i + words + 1] << 32;
    r.word[i] = (uint32_t)(pair >> bits);
  }
  return r;
}

static inline int @less(@wide_t x, @wide_t y) {
  int i;
  x.word[@WORDS - 1] ^= UINT32_C(0x80000000);
  y.word[@WORDS - 1] ^= UINT32_C(0x80000000);
  for (i = @WORDS - 1; i > 0 && x.word[i] == y.word[i]; i--) {}
  return x.word[i] < y.word[i];
}

static inline int64_t @length(@wide_t x) {
  int64_t n;
  int i;
  uint32_t rest;
  for (i = @WORDS - 1; i > 0 && x.word[i] == 0; i--) {}
  n = 32 * i;
  for (rest = x.word[i]; rest != 0; rest >>= 1) n++;
  return n;
}

static inline @wide_t @low_part(@wide_t x, int64_t count) {
  int i;
  for (i = 0; i < @WORDS; i++)
    if (32 * i >= count) x.word[i] = 0;
    else if (count - 32 * i < 32) x.word[i] &= (UINT32_C(1) << (count - 32 * i)) - 1;
  return x;
}
"""
_RESULT = """
/* Flags: invalid 1, overflow 2, underflow 4, inexact 8, saturated 16. */
typedef struct { uint32_t bits, flags; } @result;

/* A dot product of `blocks` blocks of `block` elements: a and b hold codes, scale_a and scale_b one
   E8M0 code per block, c the bits of a float32. */
static inline @result @NAME(const @TYPE_A *a, const @TYPE_B *b, const uint8_t *scale_a,
    const uint8_t *scale_b, size_t blocks, size_t block, uint32_t c) {
  int64_t packed = @MAIN(a, b, scale_a, scale_b, (int64_t)blocks, (int64_t)block, c);
  @result result;
  result.bits = (uint32_t)packed;
  result.flags = (uint32_t)(packed >> 32);
  return result;
}
"""


def _code_type(bits: int) -> str:
    return f"uint{8 if bits <= 8 else 16 if bits <= 16 else 32}_t"


class C(Printer):
    """A header of static functions."""

    def type(self, kind: str) -> str:
        a, b = map(_code_type, self.code_bits)
        names = {"CodesA": a, "CodesB": b, "Scales": "uint8_t"}
        arrays = {array: f"const {name} *" for array, name in names.items()}
        return {INT: "int64_t ", BOOL: "int ", WIDE: f"{self.prefix}wide_t ", **arrays}[kind]

    def begin(self) -> list[str]:
        guard = f"{self.prefix}H".upper()
        values = self.program.constants
        texts = {n: self.number(v) if v >= 0 else f"({v})" for n, v in values.items()}
        constants = [f"#define {self.constant(name)} {text}" for name, text in texts.items()]
        return [
            f"#ifndef {guard}", f"#define {guard}", "", "#include <stddef.h>",
            "#include <stdint.h>", "", *constants, *self.filled(_WIDE),
        ]  # fmt: skip

    def filled(self, template: str) -> list[str]:
        """Lines of a template."""
        names = {
            "@WORDS": str(self.program.constants["WIDE_BITS"] // 32),
            "@NAME": self.prefix.removesuffix("_"),
            "@MAIN": self.prefix + self.program.functions[-1].name,
            "@TYPE_A": _code_type(self.code_bits[0]),
            "@TYPE_B": _code_type(self.code_bits[1]),
            "@": self.prefix,
        }
        for name, text in names.items():
            template = template.replace(name, text)
        return template.rstrip("\n").split("\n")

    def end(self) -> list[str]:
        return [*self.filled(_RESULT), "", "#endif"]

    def define(self, function: Function) -> list[str]:
        """A static function; variables are declared first."""
        parameters = ", ".join(f"{self.type(t)}{n}" for n, t in function.parameters.items())
        declared = [
            *(f"  {self.type(t)}{n};" for n, t in function.variables.items()),
            *(f"  int64_t {n};" for n in sorted(function.loops)),
        ]
        result = self.type(function.result)
        return [
            *self.remark(function.text),
            f"static inline {result}{self.prefix}{function.name}({parameters}) {{",
            *declared,
            *self.statements(function.body, 1),
            "}",
        ]

    def loop(self, name: str, stop: str) -> str:
        return f"for ({name} = 0; {name} < {stop}; {name}++) {{"

    def binary(self, symbol: str, left: str, right: str, is_wide: bool) -> str:
        """Operators; those of wide integers are functions."""
        if not is_wide:
            return super().binary(symbol, left, right, is_wide)
        name = self.prefix
        calls = {
            "+": f"{name}sum({left}, {right}, 0)",
            "-": f"{name}sum({left}, {right}, 1)",
            "<<": f"{name}shifted_left({left}, {right})",
            ">>": f"{name}shifted_right({left}, {right})",
            "<": f"{name}less({left}, {right})",
            ">=": f"!{name}less({left}, {right})",
        }
        return calls[symbol]

    def number(self, value: int) -> str:
        return str(value) if abs(value) <= LARGEST_PLAIN else self.long(value)

    def long(self, value: int) -> str:
        return f"INT64_C({value})"

    def constant(self, name: str) -> str:
        return f"{self.prefix.upper()}{name}"

    def element(self, array: str, kind: str, index: str) -> str:
        return f"(int64_t){array}[{index[1:-1] if index.startswith('(') else index}]"
