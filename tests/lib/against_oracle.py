"""The model of accumulators against their oracle, in every format that they take.

    python tests/lib/against_oracle.py nearest:6 nearest:24

Accumulators and formats from outside are in the modules of MXDOT_PLUGINS, with a rule in
`rational.dot.ADDED`. Sums round only where F is large: check a small F and F = 24.
"""

import argparse
import signal
import sys
from fractions import Fraction

import numpy as np

from cases import Cases, random_cases
from compare import difference, generator
from mxdot.model import FORMATS, Accumulator, MXArray, accumulator
from mxdot.model.plugins import load_plugins
from rational import dot as oracle
from rational.formats import FORMATS as ROWS
from rational.formats import add_table

COUNT, ONE_SIDED = 300, 100
BLOCKS, K = 4, 16


def formats(rule: Accumulator) -> list[str]:
    """Names of the formats that the rule takes; the oracle learns those that it has no row for."""
    taken = []
    for name, fmt in FORMATS.items():
        try:
            rule.check_formats(fmt, fmt)
        except ValueError:
            continue
        if name not in ROWS and not fmt.is_integer:
            add_table(name, fmt.values.tolist(), getattr(fmt, "ties", "even"), fmt.emin)
        taken.append(name)
    return taken


def operands(name: str) -> Cases:
    """Random dot products, of which the last sum one block of products without a sign."""
    shape = (name, name), COUNT - ONE_SIDED, BLOCKS, K
    cases = random_cases(generator(name), *shape)
    classes = {"operands": ["wide", "one large"], "scales": ["unit"], "running": ["zero"]}
    shape = (name, name), ONE_SIDED, BLOCKS, K
    sided = random_cases(generator(name, "one side"), *shape, **classes)
    a, b = (_joined(x, _one_sided(y)) for x, y in ((cases.a, sided.a), (cases.b, sided.b)))
    return Cases(a, b, np.concatenate([cases.c, sided.c]))


def _one_sided(x: MXArray) -> MXArray:
    values = x.format.values[x.codes]
    codes = np.where(values < 0, x.format.negated(x.codes), x.codes)
    codes[:, K:] = np.flatnonzero(x.format.values == 0)[0]
    return MXArray(codes, x.scales, x.format, K)


def _joined(x: MXArray, y: MXArray) -> MXArray:
    codes, scales = (np.concatenate(pair) for pair in ((x.codes, y.codes), (x.scales, y.scales)))
    return MXArray(codes, scales, x.format, K)


def is_equal(text: str, rule: Accumulator) -> bool:
    """Print a line per format; False where bits or flags differ."""
    equal = True
    for name in formats(rule):
        if name not in ROWS:
            print(f"{text} {name}: not compared, tests/lib/rational/formats.py has no row")
            continue
        report = difference(operands(name), rule, cut=True)
        print(f"{text} {name}: {report or f'{COUNT} dot products, equal'}")
        equal = equal and report is None
    return equal


def with_oracle(text: str) -> Accumulator:
    """The accumulator, if the oracle has a rule for it, else ValueError."""
    rule = accumulator(text)
    try:
        oracle.accumulate(text, [], Fraction(0), oracle.Status())
    except ValueError:
        known = ", ".join(oracle.ADDED) or "nothing"
        raise ValueError(
            f"{text} must have its oracle in rational.dot.ADDED, which holds {known}: a module of "
            f"MXDOT_PLUGINS puts it there by {text.split(':')[0]!r}"
        ) from None
    return rule


def main() -> int:
    """Compare; 0 where all is equal, 1 where bits or flags differ, 2 for wrong input."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("accumulators", nargs="+", metavar="A", help="nearest:6, aligned:13, ...")
    texts = parser.parse_args().accumulators
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` has read enough
    try:
        load_plugins()
        rules = [with_oracle(text) for text in texts]
    except ValueError as error:
        parser.error(str(error))
    equal = [is_equal(text, rule) for text, rule in zip(texts, rules, strict=True)]
    return int(not all(equal))


if __name__ == "__main__":
    sys.exit(main())
