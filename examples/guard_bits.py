"""Effect of the guard bits of RISC-V's bulk normalisation on errors: the table of docs/rvbna.md.

python examples/guard_bits.py bf16 32
"""

import sys

from mxdot.compare.accuracy import evaluate

DATA = ("normal", "log-normal", "outliers", "cancellation")
LENGTHS = (32, 1024, 16384)


def main() -> None:
    """Print a row per rule: SQNR in dB against the exact products."""
    pair, terms = sys.argv[1], int(sys.argv[2])
    demanded = terms.bit_length() - 1
    rules = [f"rvbna:{terms}:{bits}" for bits in range(demanded + 4)]
    columns = [f"{data} {length:,}" for data in DATA for length in LENGTHS]
    print(f"| {pair} | {' | '.join(columns)} |")
    print("|---|" + "---|" * len(columns))
    for rule in (*rules, "exact", "aligned:25", "hopper-fp16"):
        measured = [one for data in DATA for one in evaluate(rule, pair, data, LENGTHS, count=64)]
        cells = [f"{one.sqnr_accumulator_db:.0f}" for one in measured]
        print(f"| `{rule}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
