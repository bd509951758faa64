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
from dataclasses import asdict, dataclass
from pathlib import Path

from ...synth.measure import Cache
from ...util.cache import digest
from ...util.files import write_file
from .python_source import Change, sample
from .score import Fate, MutantOutcome, Told

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
        """The files."""
        return ", ".join(f"model/{file}" for file in self.files)


PARTS = (
    Part(
        "model-dot",
        ("dot.py", "products.py", "rounding.py", "specials.py"),
        (
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
        ("quantize.py", "schemes/scales.py", "blocks.py"),
        (
            "model/test_blocks",
            "model/test_quantize",
            "model/test_scale_formats",
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
    found = []
    for file, text in texts.items():
        share = max(1, round(count * text.count("\n") / total))
        found += [(file, change) for change in sample(text, share, f"{file}/{seed}")]
    return found[:count]


def judged(
    part: Part, count: int, seed: int, directory: Path, cache: Cache, tell: Told
) -> list[MutantOutcome]:
    """The fate of every mutant. RuntimeError when the tests fail without any."""
    root = checkout()
    texts = [path.read_text() for path in sorted((root / "tests").rglob("*.py"))]
    texts += [path.read_text() for path in sorted((root / "model").rglob("*.py"))]
    against = digest([*texts, *part.tests])
    tree, whole, outcomes = directory / "tree", False, []
    for file, change in mutants(part, count, seed):
        key = cache.key(file, change.text, against)
        kept = cache.read(key, "model")
        if kept is None:
            if not whole:
                _copy(root, tree)
                failed = _failing(part, root, tree)
                if failed:
                    raise RuntimeError(f"{part.name} without a mutant fails {failed}")
                whole = True
            outcome = _judge(part, file, change, root, tree)
            cache.write(key, "model", asdict(outcome))
        else:
            outcome = MutantOutcome(**kept | {"fate": Fate(kept["fate"])})
        tell(outcome)
        outcomes.append(outcome)
    return outcomes


def _copy(root: Path, tree: Path) -> None:
    """mxdot with a model of its own, in which one file at a time is another."""
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "mxdot").mkdir(parents=True)
    for folder in root.iterdir():
        if (folder / "__init__.py").is_file() and folder.name != "model":
            (tree / "mxdot" / folder.name).symlink_to(folder)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "model", tree / "mxdot" / "model", ignore=ignore)


def _judge(part: Part, file: str, change: Change, root: Path, tree: Path) -> MutantOutcome:
    start = time.monotonic()
    path = tree / "mxdot" / "model" / file
    right = path.read_text()
    try:
        write_file(path, change.text)
        failed = _failing(part, root, tree)
    finally:
        write_file(path, right)
    text = f"{change.operator}: {change.wrong} for {change.right} at {file}:{change.line}"
    fate = Fate.KILLED if failed else Fate.SURVIVED
    return MutantOutcome(
        part.name, text, fate, failed or "every test passes", time.monotonic() - start
    )


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
        if done.returncode:
            return name
    return ""
