"""Mutants of the golden model, judged by its tests against rational arithmetic.

An own mutator: mutmut 3.8.1 finds no test for any mutant, as its modules are called `model`, those
that tests import `mxdot.model`; cosmic-ray 8.7.0 changes the files of the checkout in place, and
has no sample that a seed repeats (534 mutants of model/rounding.py alone).
"""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...util.cache import digest
from ...util.children import blames_machine
from ...util.runs import scratch
from .python_source import Change, sample
from .score import Fate, MutantOutcome

PACKAGE = Path(__file__).parents[2]
"""Root of mxdot, with its folders model, sim and so on."""
LIMIT = 300.0  # seconds of the tests with one mutant; a loop without an end is killed


@dataclass(frozen=True)
class Part:
    """Files of the model that are mutated together. tests: files that judge, the quickest
    first."""

    name: str
    files: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def says(self) -> str:
        """The files, as a list with commas."""
        return ", ".join(f"model/{file}" for file in self.files)


PARTS = (
    Part(
        "model-dot",
        ("dot.py", "products.py", "rounding.py", "specials.py"),
        (
            "model/test_quotients",
            "model/test_rational_presets",
            "model/test_accumulators",
            "hw/test_micro",
            "model/test_trace",
            "model/test_dot",
            "model/test_rational_formats",
            "model/test_machines",
            "model/test_outputs",
            "model/test_dot_rational",
        ),
    ),
    Part(
        "model-accumulators",
        (
            "accumulators/aligned.py",
            "accumulators/exact.py",
            "accumulators/fused.py",
            "accumulators/fixed.py",
            "accumulators/float32.py",
            "accumulators/group_sums.py",
        ),
        (
            "model/test_stored_sections",
            "model/test_config",
            "model/test_accumulators",
            "model/test_rational_presets",
            "model/test_dot",
            "model/test_rational_formats",
            "model/test_machines",
            "model/test_pipeline",
            "model/test_dot_rational",
        ),
    ),
    Part(
        "model-quantize",
        ("quantize.py", "schemes/scales.py", "schemes/rules.py", "blocks.py"),
        (
            "model/test_quotients",
            "model/test_blocks",
            "model/test_quantize",
            "model/test_scale_formats",
            "model/test_schemes_by_hand",
            "model/test_schemes",
            "model/test_schemes_variants",
            "model/test_schemes_integer",
            "model/test_schemes_errors",
            "model/test_schemes_calibrate",
            "model/test_schemes_refusals",
            "model/test_scheme_suite",
            "model/test_own_formats",
            "model/test_encode",
        ),
    ),
    Part(
        "model-integers",
        ("requantize.py", "integers.py"),
        ("model/test_integers", "model/test_requantize", "model/test_dot"),
    ),
)


def checkout() -> Path:
    """The folder with model/ and tests/; ValueError where the package was installed without."""
    root = (PACKAGE / "model").resolve().parent
    if not (root / "tests" / "model" / "test_dot_rational.py").is_file():
        raise ValueError(f"mutants of the model must run in a checkout with tests/, not in {root}")
    return root


def mutants(part: Part, count: int, seed: int) -> list[tuple[str, Change]]:
    """File and change: of every file its share by length, `count` in all or fewer."""
    texts = {file: (PACKAGE / "model" / file).read_text() for file in part.files}
    total = sum(text.count("\n") for text in texts.values())
    chosen = []
    for file, text in texts.items():
        share = max(1, round(count * text.count("\n") / total))
        chosen += [(file, change) for change in sample(text, share, f"{file}/{seed}")]
    return chosen[:count]


def text_of(file: str, change: Change) -> str:
    """A mutant in a line."""
    return f"{change.operator}: {change.wrong} for {change.right} at {file}:{change.line}"


@cache
def tests_digest() -> str:
    """Digest of all files of tests."""
    return digest([path.read_text() for path in sorted((checkout() / "tests").rglob("*.py"))])


def judged(part: Part, file: str, change: Change) -> MutantOutcome:
    """The fate of one mutant, by tests."""
    start = time.monotonic()
    killer = failing(part, file, change.text)
    fate = Fate.KILLED if killer else Fate.SURVIVED
    seconds = time.monotonic() - start
    return MutantOutcome(
        part.name, text_of(file, change), fate, killer or "every test passes", seconds
    )


def failing(part: Part, file: str = "", text: str = "") -> str:
    """The first file of tests that fails with a model whose `file` is `text`; empty when all pass.

    The model is a copy: mxdot elsewhere is as it is.
    """
    root = checkout()
    with scratch("model") as tree:
        (tree / "mxdot").mkdir()
        for folder in root.iterdir():
            if (folder / "__init__.py").is_file() and folder.name != "model":
                (tree / "mxdot" / folder.name).symlink_to(folder)
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / "model", tree / "mxdot" / "model", ignore=ignore)
        if file:
            (tree / "mxdot" / "model" / file).write_text(text)
        return _failing(part, root, tree)


def _failing(part: Part, root: Path, tree: Path) -> str:
    """The first file of tests that fails; empty when all pass."""
    path = [str(tree.resolve()), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}
    for name in part.tests:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdist", "-p",
                   "no:cacheprovider", f"tests/{name}.py"]  # fmt: skip
        try:
            done = subprocess.run(
                command, cwd=root, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=LIMIT, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return name
        if done.returncode < 0 or blames_machine(done.stdout.decode(errors="replace")):
            raise ValueError(f"{name} cannot run: status {done.returncode}")
        if done.returncode:
            return name
    return ""
