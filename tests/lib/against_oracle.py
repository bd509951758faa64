"""The model of an accumulator against its oracle, in every format that it takes.

    python tests/lib/against_oracle.py nearest:6

Accumulators from outside are in the modules of MXDOT_PLUGINS, with a rule in `rational.dot.ADDED`.
"""

import sys

from cases import random_cases
from compare import difference, generator
from mxdot.model import FORMATS, Accumulator, accumulator

COUNT = 300


def formats(rule: Accumulator) -> list[str]:
    """Names of the formats that the rule takes."""
    taken = []
    for name, fmt in FORMATS.items():
        try:
            rule.check_formats(fmt, fmt)
        except ValueError:
            continue
        taken.append(name)
    return taken


def main(text: str) -> int:
    """Print a line per format; 1 where bits or flags differ."""
    rule, reports = accumulator(text), []
    for name in formats(rule):
        report = difference(random_cases(generator(name), (name, name), COUNT, 4, 16), rule)
        print(f"{name}: {report or f'{COUNT} dot products, equal'}")
        reports.append(report)
    return int(any(reports))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
