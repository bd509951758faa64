"""Mutants of Python modules, judged by tests: the golden model, the Verilog writer, GPU kernels.

An own mutator: mutmut 3.8.1 finds no test for any mutant, as its modules are called `model`, those
that tests import `mxdot.model`; cosmic-ray 8.7.0 changes the files of the checkout in place, and
has no sample that a seed repeats (534 mutants of model/rounding.py alone).
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from ...util.cache import digest
from ...util.children import blames_machine
from ...util.runs import scratch
from .python_source import Change, sample
from .score import Fate, MutantOutcome

PACKAGE = Path(__file__).parents[2]
"""Root of mxdot, with its folders model, sim and so on."""
EQUAL_MUTANTS = "tests/equal_mutants.toml"
"""File of mutants that change no result, and of what is not mutated, in the checkout."""
OWN_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
"""Ends of a process by what it does itself, as a kernel that writes outside its tensors."""


@dataclass(frozen=True)
class Part:
    """Files of a package that are mutated together. files: a folder stands for all modules in it.
    tests: files that judge, the quickest first. also_model: every other file of tests/model judges
    too. python: of an environment in the checkout. leaves: modules that no test here can judge.
    limit: seconds of a file of tests with a mutant; a loop without an end is killed."""

    name: str
    files: tuple[str, ...]
    tests: tuple[str, ...]
    package: str = "model"
    python: str = ""
    leaves: tuple[str, ...] = ()
    limit: float = 300.0
    also_model: bool = False

    @property
    def says(self) -> str:
        """The files, as a list with commas."""
        return ", ".join(f"{self.package}/{file}" for file in self.files)

    @property
    def modules(self) -> list[str]:
        """Paths of the modules, from the package."""
        root = PACKAGE / self.package
        places = [root / file for file in self.files]
        files = [sorted(p.rglob("*.py")) if p.is_dir() else [p] for p in places]
        names = [path.relative_to(root).as_posix() for paths in files for path in paths]
        return [name for name in names if name not in self.leaves]


_of_model = partial(Part, also_model=True)

PARTS = (
    _of_model(
        "model-dot",
        ("dot.py", "products.py", "rounding.py", "specials.py"),
        (
            "model/test_quotients",
            "model/test_rational_presets",
            "model/test_accumulators",
            "hw/test_micro",
            "model/test_trace",
            "model/test_dot_refusals",
            "model/test_dot",
            "model/test_rational_formats",
            "model/test_machines",
            "model/test_outputs",
            "model/test_dot_rational",
        ),
    ),
    _of_model(
        "model-products",
        ("matmul.py", "steps", "outputs.py", "trace.py", "wide.py"),
        (
            "model/test_wide",
            "model/test_outputs",
            "model/test_trace",
            "model/test_narrow_types",
            "model/test_flags",
            "model/test_dot_refusals",
            "model/test_schemes_products",
            "model/test_schemes_wrong_products",
            "model/test_rational_presets",
            "model/test_operands_warning",
            "model/test_dot",
            "hw/test_micro",
            "model/test_scale_formats",
            "model/test_dot_rational",
        ),
    ),
    _of_model(
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
            "hw/test_unit",
        ),
    ),
    _of_model(
        "model-machines",
        (
            "accumulators/__init__.py",
            "accumulators/base.py",
            "accumulators/amd.py",
            "accumulators/bulk.py",
            "accumulators/chains.py",
            "accumulators/hardware.py",
            "accumulators/machine.py",
            "accumulators/machines.py",
        ),
        (
            "model/test_bulk",
            "model/test_stored_sections",
            "model/test_rational_presets",
            "model/test_accumulators",
            "model/test_operands_warning",
            "model/test_cpu_silicon",
            "model/test_config",
            "model/test_hardware_names",
            "model/test_own_formats",
            "model/test_machines",
            "model/test_dot_rational",
        ),
    ),
    _of_model(
        "model-formats",
        ("formats", "packing.py", "arrays.py", "lfsr.py"),
        (
            "model/test_packing",
            "model/test_formats",
            "model/test_narrow_types",
            "model/test_rational_formats",
            "model/test_stored_formats",
            "model/test_schemes_by_hand",
            "model/test_quantize_config",
            "model/test_own_formats",
            "model/test_encode",
            "model/test_schemes",
            "model/test_schemes_packing",
        ),
    ),
    _of_model(
        "model-quantize",
        ("quantize.py", "schemes/scales.py", "schemes/rules.py", "blocks.py"),
        (
            "model/test_quotients",
            "model/test_blocks",
            "model/test_narrow_types",
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
    _of_model(
        "model-schemes",
        (
            "schemes/array.py",
            "schemes/calibrate.py",
            "schemes/codes.py",
            "schemes/grouping.py",
            "schemes/integer.py",
            "schemes/operand.py",
            "schemes/pairing.py",
            "schemes/products.py",
            "schemes/quantize.py",
            "schemes/regions.py",
            "schemes/scheme.py",
            "schemes/table.py",
        ),
        (
            "model/test_schemes_by_hand",
            "model/test_schemes_variants",
            "model/test_schemes_storage",
            "model/test_schemes_refusals",
            "model/test_schemes_errors",
            "model/test_schemes_packing",
            "model/test_schemes_integer",
            "model/test_blocks",
            "model/test_schemes_calibrate",
            "model/test_schemes",
            "model/test_schemes_products",
            "model/test_schemes_wrong_products",
            "compare/test_schemes_study",
            "model/test_scheme_suite",
        ),
    ),
    _of_model(
        "model-integers",
        ("requantize.py", "integers.py"),
        ("model/test_integers", "model/test_requantize", "model/test_dot"),
    ),
    _of_model(
        "model-files",
        ("checkpoints", "files.py", "plugins.py", "schemes/files.py", "schemes/storage.py"),
        (
            "model/test_plugins",
            "model/test_files",
            "model/test_checkpoints",
            "model/test_stored_formats",
            "model/test_schemes_storage",
            "model/test_schemes_packing",
            "model/test_own_formats",
            "sim/test_checkpoints",
            "sim/test_fuzz_tensors",
            "project/test_added",
        ),
    ),
    _of_model(
        "model-units",
        ("units", "pipeline", "errors.py"),
        (
            "model/test_matmul_config",
            "model/test_quantize_config",
            "model/test_config",
            "model/test_stored_sections",
            "model/test_accumulators",
            "model/test_integers",
            "model/test_blocks",
            "synth/test_clock",
            "model/test_widths",
            "model/test_pipeline",
            "hw/test_floats",
            "hw/test_verilog",
            "model/test_delays",
        ),
    ),
    Part(
        "model-export",
        ("export", "keywords.py"),
        ("model/test_export_stored", "model/test_export", "sim/test_export_verilog"),
    ),
    Part(
        "verilog-writer",
        ("verilog",),
        (
            "hw/test_verilog_stored",
            "hw/test_netlist",
            "hw/test_verilog",
            "hw/test_verilog_operators",
            "verify/test_verilog_equivalence",
            "hw/test_verilog_lint",
            "verify/test_assertions",
        ),
        package="hw",
    ),
    Part(
        "gpu-kernels",
        ("kernels",),
        (
            "gpu/test_regroup",
            "gpu/test_silicon",
            "gpu/test_few_rows",
            "gpu/test_int8_matmul",
            "gpu/test_kernels_quantize",
            "gpu/test_kernels_schemes",
            "gpu/test_kernels_matmul",
            "gpu/test_weight_only",
            "gpu/test_kernels_machines",
        ),
        package="gpu",
        python=".venv-gpu/bin/python",
        leaves=(
            "kernels/device.py",  # asks a GPU what it is
            "kernels/dot_scaled.py",  # only measured, on a GPU
            "kernels/launch.py",  # keeps what a compiler made for a GPU
            "kernels/overlap.py",  # orders kernels that run at once
            "kernels/quantize_pairs.py",  # instructions of a GPU
        ),
        limit=1200.0,  # Triton's interpreter takes minutes
    ),
)


def checkout() -> Path:
    """The folder with model/ and tests/; ValueError where the package was installed without."""
    root = (PACKAGE / "model").resolve().parent
    if not (root / "tests" / "model" / "test_dot_rational.py").is_file():
        raise ValueError(f"mutants of modules must run in a checkout with tests/, not in {root}")
    return root


def missing(part: Part) -> str:
    """Reason that a part cannot be judged here; empty where it can."""
    root = (PACKAGE / part.package).resolve().parent
    if (root / part.python).exists():
        return ""
    return f"{part.name} needs {root / part.python}: make venv-gpu"


def mutants(part: Part, count: int, seed: int) -> list[tuple[str, Change]]:
    """File and change: of every file its share by length, `count` in all or fewer.

    With fewer mutants than files, the seed chooses the files.
    """
    texts = {file: (PACKAGE / part.package / file).read_text() for file in part.modules}
    total = sum(text.count("\n") for text in texts.values())
    chosen = []
    for file, text in texts.items():
        share = max(1, round(count * text.count("\n") / total))
        stays = _listed()["kept"].get(f"{part.package}/{file}", ())
        chosen += [(file, change) for change in sample(text, share, f"{file}/{seed}", stays)]
    kept = random.Random(f"{part.name}/{seed}").sample(range(len(chosen)), len(chosen))[:count]
    return [chosen[place] for place in sorted(kept)]


def text_of(file: str, change: Change) -> str:
    """A mutant in a line."""
    return f"{change.operator}: {change.words} at {file}:{change.line}"


@cache
def tests_digest() -> str:
    """Digest of all files of tests."""
    return digest([path.read_text() for path in sorted((checkout() / "tests").rglob("*.py"))])


def judged(part: Part, file: str, change: Change) -> MutantOutcome:
    """The fate of one mutant, by tests."""
    start = time.monotonic()
    killer, equal = failing(part, file, change.text), why_equal(part, file, change)
    if killer:
        fate, by = Fate.KILLED, f"{killer}, against {EQUAL_MUTANTS}" if equal else killer
    elif equal:
        fate, by = Fate.EQUIVALENT, equal
    else:
        fate, by = Fate.SURVIVED, "every test passes"
    return MutantOutcome(part.name, text_of(file, change), fate, by, time.monotonic() - start)


def why_equal(part: Part, file: str, change: Change) -> str:
    """The reason in `EQUAL_MUTANTS` that a mutant changes no result; empty where it has none."""
    line = (PACKAGE / part.package / file).read_text().splitlines()[change.line - 1].strip()
    for entry in _listed()["equal"]:
        is_there = entry["file"] == f"{part.package}/{file}" and entry["line"] == line
        if is_there and change.words in entry["changes"]:
            return entry["why"]
    return ""


def _listed() -> dict[str, Any]:
    """Contents of EQUAL_MUTANTS."""
    return tomllib.loads((checkout() / EQUAL_MUTANTS).read_text(encoding="utf-8"))


def failing(part: Part, file: str = "", text: str = "") -> str:
    """The first file of tests that fails where `file` is `text`; empty when all pass.

    The package is a copy: mxdot elsewhere is as it is.
    """
    root = checkout()
    with scratch("part") as tree:
        (tree / "mxdot").mkdir()
        for folder in root.iterdir():
            if (folder / "__init__.py").is_file() and folder.name != part.package:
                (tree / "mxdot" / folder.name).symlink_to(folder)
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / part.package, tree / "mxdot" / part.package, ignore=ignore)
        if file:
            (tree / "mxdot" / part.package / file).write_text(text)
        return _failing(part, root, tree)


def _failing(part: Part, root: Path, tree: Path) -> str:
    """The first file of tests that fails; empty when all pass."""
    path = [str(tree.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}
    env["CUDA_VISIBLE_DEVICES"] = ""  # kernels run in Triton's interpreter
    python = str(root / part.python) if part.python else sys.executable
    for name, files in _runs(part, root).items():
        command = [python, "-m", "pytest", "-q", "-x", "-p", "no:xdist", "-p",
                   "no:cacheprovider", *files]  # fmt: skip
        try:
            done = subprocess.run(
                command, cwd=root, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=part.limit * len(files), check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return name
        said = (done.stdout + done.stderr).decode(errors="replace")
        from_outside = done.returncode < 0 and -done.returncode not in OWN_FAULTS
        if from_outside or blames_machine(said):
            raise ValueError(f"{name} cannot run: status {done.returncode}")
        if done.returncode:
            return name
    return ""


def _runs(part: Part, root: Path) -> dict[str, list[str]]:
    """Files of tests that run together, by name."""
    runs = {name: [f"tests/{name}.py"] for name in part.tests}
    if part.also_model:
        names = {f"model/{path.stem}" for path in (root / "tests" / "model").glob("test_*.py")}
        others = sorted(names - set(part.tests))
        runs["other tests of model/"] = [f"tests/{name}.py" for name in others]
    return runs
