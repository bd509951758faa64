"""Networks in each recipe against bfloat16, in one run: `python -m mxdot.nn.bench`.

An MLP of two layers, compiled: frozen with many tokens, frozen with few rows (as CUDA graphs), and
a training step, forward and backward; then the cost of small calls. `--only rows` is one run of
every recipe with 1, 16, 512 and 2048 rows (as CUDA graphs), which begins no network after
`--seconds`; `--json FILE` keeps its figures. With `--model llama` a Llama
of `transformers`, frozen: prefill of many tokens, and tokens decoded as a CUDA graph. Every network
has the weights of the bfloat16 one, and a table ends the run where the cosine of two outputs is too
small. Memory is what a network holds and, in brackets, the most that is allocated while it runs, on
a CUDA device; on others it is counted in bytes of parameters, and speeds mean little.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..gpu.bench.timing import graphed, milliseconds
from ..gpu.ops.matmul import matmul
from ..gpu.ops.mx_matmul import mx_matmul
from ..gpu.ops.quantize import quantize
from ..model.errors import one_line
from .convert import convert, freeze
from .linear import MXLinear, kernel_of
from .recipe import Recipe
from .recipes import RECIPES

FP8, FP8_ROWS = Recipe(accumulator="float8"), ("fp8_e4m3_row", "fp8_e4m3_row")
# Recipes, and the least cosine of a network's output to bfloat16's.
FROZEN = {
    "mxfp8, values": (Recipe(), 0.995),
    "mxfp8, float8": (FP8, 0.995),
    "fp8 by tensor, float8": (
        Recipe("fp8_e4m3_tensor", "fp8_e4m3_tensor", accumulator="float8"),
        0.995,
    ),
    "fp8 by row, float8": (Recipe(*FP8_ROWS, accumulator="float8"), 0.995),
    "fp8 of 128 x 128 and 1 x 128, float8": (
        Recipe("fp8_e4m3_128x128", "fp8_e4m3_b128", accumulator="float8"),
        0.995,
    ),
    "w8a8": (Recipe("int8_channel", "int8_channel"), 0.995),
    "mxfp4 weights, values": (Recipe("e2m1", "e4m3"), 0.97),
}
FEW = {
    "int4_g128 weights": (Recipe("int4_g128", None), 0.97),
    "mxfp8, float8": (FP8, 0.995),
}
TRAINED = {
    "mxfp8, values": (Recipe(), 0.995),
    "mxfp8, values, saved quantized": (Recipe(saved="quantized"), 0.995),
    "mxfp8, float8": (FP8, 0.995),
    "mxfp8, float8, saved quantized": (Recipe(saved="quantized", accumulator="float8"), 0.995),
    "fp8 by row, float8, saved quantized": (
        Recipe(*FP8_ROWS, saved="quantized", accumulator="float8"),
        0.995,
    ),
    "nvfp4": (RECIPES["nvfp4"], 0.97),
}
LLAMA = {
    "mxfp8, values": (Recipe(), 0.98),
    "mxfp8, float8": (FP8, 0.98),
    "fp8 by row, values": (Recipe(*FP8_ROWS), 0.98),
    "fp8 by row, float8": (Recipe(*FP8_ROWS, accumulator="float8"), 0.98),
    "w8a8": (Recipe("int8_channel", "int8_channel"), 0.98),
    "int4_g128 weights": (Recipe("int4_g128", None), 0.88),
    "mxfp4 weights": (Recipe("e2m1", None), 0.87),
    "nvfp4": (RECIPES["nvfp4"], 0.82),
}
# The last token of a prefill attends to thousands of others. Random weights spread attention
# evenly: the mean of what they say is small beside the error of quantisation.
PREFILL = {
    name: (recipe, least - (0.04 if least > 0.9 else 0.25))
    for name, (recipe, least) in LLAMA.items()
}
EVERY = {
    **{name: FROZEN[name] for name in ("mxfp8, values", "mxfp8, float8")},
    "nvfp4": (RECIPES["nvfp4"], 0.95),
    "nvfp4 weights": (Recipe("nvfp4", None), 0.97),
    "mxfp4 weights": (Recipe("e2m1", None, None), 0.97),
    **FEW,
    "fp8 by row, values": (Recipe(*FP8_ROWS), 0.995),
    **FROZEN,
    "mxfp6 weights": (Recipe("e2m3", None, None), 0.99),
    "mxint8": (Recipe("int8", "int8"), 0.995),
    "int8 weights by channel": (Recipe("int8_channel", None), 0.995),
    "int4_g128 weights, fp8 by row": (Recipe("int4_g128", "fp8_e4m3_row"), 0.97),
}
ROWS, SECONDS = (1, 16, 512, 2048), 240
LLAMA_LAYERS, VOCABULARY, SEQUENCE, HEAD = 4, 32000, 2048, 128
FEW_ROWS = (1, 4, 16)
DECODED = (1, 16)
CHECKED = 64  # rows of an output whose cosine is taken
MIB = 2.0**20


@dataclass(frozen=True)
class Sizes:
    """Model, its features, inner features and tokens, its device and its mode; text in the names
    of the recipes that tables have."""

    width: int
    hidden: int
    tokens: int
    device: str
    compiled: bool
    model: str = "mlp"
    recipe: str = ""


@dataclass(frozen=True)
class Measured:
    """A network: milliseconds of a run, bytes that it holds, most bytes in a run, its output."""

    time: float
    resident: int
    peak: int
    output: Tensor


def network(sizes: Sizes) -> nn.Module:
    """The bfloat16 network, the same every time."""
    torch.manual_seed(0)
    if sizes.model == "llama":
        return llama(sizes)
    with torch.device(sizes.device):
        inside = nn.Linear(sizes.width, sizes.hidden), nn.Linear(sizes.hidden, sizes.width)
    return nn.Sequential(inside[0], nn.GELU(), inside[1]).to(torch.bfloat16)


class LastLogits(nn.Module):
    """Logits of the last token of each sequence by a causal model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(tokens, use_cache=False, logits_to_keep=1).logits[:, 0]


def llama(sizes: Sizes) -> nn.Module:
    """A Llama with random weights, a query head for every 128 features and a quarter as many
    key heads."""
    library = import_module("transformers")
    heads = sizes.width // HEAD
    config = library.LlamaConfig(
        hidden_size=sizes.width,
        intermediate_size=sizes.hidden,
        num_hidden_layers=LLAMA_LAYERS,
        num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 4),
        vocab_size=VOCABULARY,
        max_position_embeddings=SEQUENCE,
    )
    with torch.device(sizes.device):
        return LastLogits(library.LlamaForCausalLM(config).to(torch.bfloat16).eval())


def inputs(sizes: Sizes, rows: int, trains: bool) -> Tensor:
    """Rows of features; for a Llama sequences of at most 2048 tokens, decoding those of one."""
    generator = torch.Generator().manual_seed(1)
    if sizes.model == "llama":
        length = SEQUENCE if rows == sizes.tokens else 1
        shape = max(1, rows // length), min(rows, length)
        return torch.randint(0, VOCABULARY, shape, generator=generator).to(sizes.device)
    x = torch.randn(rows, sizes.width, generator=generator)
    return x.to(sizes.device, torch.bfloat16).requires_grad_(trains)


def measure(sizes: Sizes, recipe: Recipe | None, rows: int, trains: bool) -> Measured:
    """A network of a recipe, bfloat16 where that is None, made, run and dropped."""
    before = _allocated(sizes)
    made = network(sizes)
    if recipe is not None:
        skip = ("model.lm_head",) if sizes.model == "llama" else ()
        convert(made, recipe, skip)
        if not trains:
            freeze(made, keep_weight=False)
    gc.collect()
    resident = _allocated(sizes) - before if sizes.device == "cuda" else held(made)
    x = inputs(sizes, rows, trains)
    compiled = torch.compile(made, dynamic=False) if sizes.compiled else made
    work = partial(_step, made, compiled, x) if trains else partial(_run, compiled, x)
    output = work().detach().clone()
    if sizes.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        work()
        torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before if sizes.device == "cuda" else resident
    few = sizes.device == "cuda" and not trains and rows <= max(FEW_ROWS)
    took = _milliseconds(graphed(work) if few else work, sizes.device)
    return Measured(took, resident, peak, output[:CHECKED].float())


def _run(compiled: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with torch.no_grad():
        return compiled(x)


def _step(made: nn.Module, compiled: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    made.zero_grad()
    x.grad = None
    y = compiled(x)
    y.backward(x.detach())
    return y


def held(made: nn.Module) -> int:
    """Bytes of a network's parameters and of the frozen weights that its layers keep."""
    kept: list[Tensor] = list(made.parameters())
    layers = [layer for layer in made.modules() if isinstance(layer, MXLinear)]
    kept += [layer.frozen for layer in layers if layer.frozen is not None]
    parts = [part for x in kept for part in _parts(x)]
    return sum({part.data_ptr(): part.numel() * part.element_size() for part in parts}.values())


def _parts(x: Tensor) -> list[Tensor]:
    return list(x.named_parts().values()) if hasattr(x, "named_parts") else [x]


def _allocated(sizes: Sizes) -> int:
    if sizes.device != "cuda":
        return 0
    gc.collect()
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


def _milliseconds(work: Callable[[], object], device: str) -> float:
    return milliseconds(work) if device == "cuda" else min(seconds(work) for _ in range(3)) * 1e3


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock seconds per call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def table(
    sizes: Sizes, title: str, recipes: dict[str, tuple[Recipe, float]], rows: int, trains: bool
) -> Iterator[str]:
    """Lines on networks of some recipes, after bfloat16's; SystemExit at the end for wrong
    outputs."""
    base, wrong = measure(sizes, None, rows, trains), []
    yield _line(f"{title}: bfloat16", base, base, 1.0)
    for name, (recipe, least) in recipes.items():
        if sizes.recipe not in name:
            continue
        torch.compiler.reset()
        measured = measure(sizes, recipe, rows, trains)
        cosine = _cosine(measured.output, base.output)
        yield _line(f"{title}: {name}", measured, base, cosine)
        if not cosine >= least:
            wrong.append(f"{title}, {name}: cosine {cosine:.4f} is not at least {least:g}")
    if wrong:
        sys.exit("; ".join(wrong))


def by_rows(sizes: Sizes, seconds: float, record: list[dict[str, Any]]) -> Iterator[str]:
    """Lines on every recipe with few and many rows, each network frozen once; a `record` of each.

    Recipes that would begin after `seconds` are named in a last line.
    """
    start, left = time.perf_counter(), []
    base: dict[int, Measured] = {}
    for name, (recipe, least) in {"bfloat16": (None, 0.999), **EVERY}.items():
        if recipe is not None and sizes.recipe not in name:
            continue
        if time.perf_counter() - start > seconds:
            left.append(name)
            continue
        before = _allocated(sizes)
        made = network(sizes)
        if recipe is not None:
            freeze(convert(made, recipe), keep_weight=False)
        resident = _allocated(sizes) - before if sizes.device == "cuda" else held(made)
        for rows in ROWS if sizes.device == "cuda" else ROWS[:2]:
            about = {"recipe": name, "rows": rows, "bytes": resident}
            try:
                measured = _frozen_rows(sizes, made, rows, resident)
            except Exception as error:  # others are measured in any case
                if recipe is None:
                    raise
                reason = one_line(f"{type(error).__name__}: {error}")
                record.append({**about, "is_right": False, "error": reason})
                yield f"| {name}, {rows}: {reason} |"
                continue
            against = base.setdefault(rows, measured)
            cosine = _cosine(measured.output, against.output)
            kernel = "library" if recipe is None else kernel_of(made[0], rows)
            record.append(
                {
                    **about,
                    "milliseconds": measured.time,
                    "times_as_fast": against.time / measured.time,
                    "cosine": cosine,
                    "kernel": kernel,
                    "is_right": cosine >= least,
                }
            )
            yield _line(f"{name}, {rows}: {kernel}", measured, against, cosine)
        del made
    if left:
        yield f"\nNot begun after {seconds:.0f} s: {', '.join(left)}"


def _frozen_rows(sizes: Sizes, made: nn.Module, rows: int, resident: int) -> Measured:
    torch.compiler.reset()
    compiled = torch.compile(made, dynamic=False) if sizes.compiled else made
    work = partial(_run, compiled, inputs(sizes, rows, False))
    output = work().detach()[:CHECKED].float()
    took = _milliseconds(graphed(work) if sizes.device == "cuda" else work, sizes.device)
    return Measured(took, resident, resident, output)


def _cosine(x: Tensor, y: Tensor) -> float:
    return float(nn.functional.cosine_similarity(x.flatten(), y.flatten(), 0))


def _line(what: str, measured: Measured, base: Measured, cosine: float) -> str:
    memory, peak = measured.resident / base.resident, measured.peak / base.peak
    return (
        f"| {what} | {measured.time:.3f} | {base.time / measured.time:.2f} | "
        f"{measured.resident / MIB:.1f} "
        f"({measured.peak / MIB:.1f}) | {memory:.2f} ({peak:.2f}) | {cosine:.4f} |"
    )


def calls(device: str) -> Iterator[str]:
    """Lines on what small calls cost a program, by the clock on the wall."""
    m, n, k = (64, 1024, 1024) if device == "cuda" else (4, 8, 64)
    x, y = (torch.randn(rows, k, device=device).to(torch.bfloat16) for rows in (m, n))
    a, b = quantize(x, "e4m3"), quantize(y, "e4m3")
    ways: dict[str, Callable[[], object]] = {
        f"quantize, {m} x {k}": lambda: quantize(x, "e4m3"),
        f"mx_matmul, {m} x {n} x {k}": lambda: mx_matmul(a, b),
        f"matmul hopper, {m} x {n} x {k}": lambda: matmul(a, b, "hopper"),
    }
    count = 200 if device == "cuda" else 1
    for name, work in ways.items():
        work()

        def many(work: Callable[[], object] = work) -> None:
            for _ in range(count):
                work()
            if device == "cuda":
                torch.cuda.synchronize()

        best = min(seconds(many) for _ in range(3))
        yield f"| {name} | {best / count * 1e6:.0f} |"


def lines(
    sizes: Sizes,
    only: str | None = None,
    seconds: float = SECONDS,
    record: list[dict[str, Any]] | None = None,
) -> Iterator[str]:
    """The tables, in Markdown; of ``rows`` also a record of each line."""
    yield "| network | ms | times as fast | MiB held (most) | of bfloat16's | cosine |"
    yield "|---|---|---|---|---|---|"
    if only == "rows":
        yield from by_rows(sizes, seconds, [] if record is None else record)
        return
    if sizes.model == "llama":
        for rows in DECODED if only in (None, "few") else ():
            yield from table(sizes, f"decode, {rows}", LLAMA, rows, False)
        if only in (None, "frozen"):
            title = f"prefill, {sizes.tokens} tokens"
            yield from table(sizes, title, PREFILL, sizes.tokens, False)
        return
    if only in (None, "frozen"):
        yield from table(sizes, f"frozen, {sizes.tokens} tokens", FROZEN, sizes.tokens, False)
    for rows in FEW_ROWS if only in (None, "few") else ():
        yield from table(sizes, f"frozen, {rows} row{'s' * (rows > 1)}", FEW, rows, False)
    if only in (None, "train"):
        yield from table(sizes, f"step, {sizes.tokens} tokens", TRAINED, sizes.tokens, True)
    if only in (None, "calls"):
        yield "\n| call | us |\n|---|---|"
        yield from calls(sizes.device)


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if options.model == "llama" and find_spec("transformers") is None:
        parser.error("--model llama needs transformers: pip install 'mxdot[nn]'")
    if options.json is not None and options.only != "rows":
        parser.error("--json must stand with --only rows")
    if options.json is not None and not options.json.resolve().parent.is_dir():
        parser.error(f"--json must be a file in a directory that exists, not {options.json}")
    if options.only == "rows" and options.model != "mlp":
        parser.error(f"--only rows must be of --model mlp, not {options.model}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m mxdot.nn.bench", description=__doc__)
    add = parser.add_argument
    add("--model", choices=("mlp", "llama"), default="mlp", help="network (default mlp)")
    add("--width", type=int, default=4096, help="features (default 4096)")
    add("--hidden", type=int, help="features inside the MLP (default 16384; of a Llama 14336)")
    add("--tokens", type=int, default=8192, help="rows of an input (default 8192)")
    add("--device", choices=("cuda", "cpu"), default="cuda")
    add("--eager", action="store_true", help="do not compile the networks")
    add("--only", choices=("frozen", "few", "train", "calls", "rows"), help="one part of the table")
    seconds = f"with --only rows: begin no network after these (default {SECONDS})"
    add("--recipe", default="", metavar="TEXT", help="recipes with it in their names")
    add("--seconds", type=float, default=SECONDS, help=seconds)
    add("--json", type=Path, metavar="FILE", help="with --only rows: keep the figures in a file")
    options = parser.parse_args(arguments)
    if options.hidden is None:
        options.hidden = 14336 if options.model == "llama" else 16384
    for name in ("width", "hidden", "tokens"):
        value = getattr(options, name)
        if value < 128 or value % 128:
            parser.error(f"--{name} must be a multiple of 128, not {value}")
    _check(parser, options)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no CUDA GPU: --device cpu shows the tables without one")
    shape = options.width, options.hidden, options.tokens
    sizes = Sizes(*shape, options.device, not options.eager, options.model, options.recipe)
    name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    shape = f"{sizes.width} x {sizes.hidden}"
    print(f"{name}, PyTorch {torch.__version__}, {sizes.model} of {shape}\n", flush=True)
    record: list[dict[str, Any]] = []
    try:
        for line in lines(sizes, options.only, options.seconds, record):
            print(line, flush=True)
    finally:
        if options.json is not None:  # of a run that was cut off, too
            versions = {"device": name, "torch": torch.__version__}
            network_of = {"width": sizes.width, "hidden": sizes.hidden}
            text = json.dumps({**versions, **network_of, "rows": record}, indent=1)
            options.json.write_text(f"{text}\n")
    wrong = [f"{each['recipe']} of {each['rows']} rows" for each in record if not each["is_right"]]
    if wrong:
        sys.exit(f"errors, or cosines that are too small: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
