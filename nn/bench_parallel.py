"""A Llama trained over several GPUs in each recipe, beside bfloat16.

    python -m torch.distributed.run --standalone --nproc-per-node 2 -m mxdot.nn.bench_parallel

With `fsdp` each rank has a part of every weight (`fully_shard`) and of the tokens, with `tp` a part
of the features of every layer (`parallelize_module`) and all tokens. Lines give the median time of
a step of AdamW with all tokens, the most memory that a rank allocates, and the loss of random
tokens, the same for every recipe, at the last step, the mean over ranks. Layers are not compiled.
"""

import argparse
import gc
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from .bench import SEQUENCE, VOCABULARY, Sizes, llama
from .convert import convert
from .recipe import Recipe
from .recipes import RECIPES

TRAINED = {
    "bfloat16": None,
    "mxfp8": Recipe(),
    "mxfp8, float8": Recipe(accumulator="float8"),
    "fp8_blocks, float8": replace(RECIPES["fp8_blocks"], accumulator="float8"),
}
MODES = ("fsdp", "tp")
WARM, TIMED = 3, 5  # steps
RATE = 1e-5
COLUMNS = "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"
ROWS = "self_attn.o_proj", "mlp.down_proj"
MIB = 2.0**20


def spread(model: Any, mode: str, mesh: DeviceMesh) -> nn.Module:
    """The causal model with its weights over the ranks."""
    for layer in model.model.layers:
        if mode == "fsdp":
            fully_shard(layer, mesh=mesh)
        else:
            plan = {name: ColwiseParallel() for name in COLUMNS}
            plan |= {name: RowwiseParallel() for name in ROWS}
            parallelize_module(layer, mesh, plan)
    return fully_shard(model, mesh=mesh) if mode == "fsdp" else model


def length_of(tokens: int, ranks: int) -> int:
    """Tokens of a sequence, at least one sequence for every rank."""
    return min(SEQUENCE, tokens // ranks)


def batch(sizes: Sizes, mode: str) -> Tensor:
    """The tokens of this rank, (sequences, length)."""
    generator = torch.Generator().manual_seed(1)
    length = length_of(sizes.tokens, dist.get_world_size())
    tokens = torch.randint(0, VOCABULARY, (sizes.tokens // length, length), generator=generator)
    if mode == "fsdp":
        tokens = tokens.chunk(dist.get_world_size())[dist.get_rank()]
    return tokens.to(sizes.device)


def line(sizes: Sizes, mode: str, name: str, base: list[float], mesh: DeviceMesh) -> str:
    """A network trained; `base` holds the times of a step so far, the first that of bfloat16."""
    recipe = TRAINED[name]
    torch.manual_seed(0)
    model = llama(sizes).model.train()
    if recipe is not None:
        convert(model, recipe, ("lm_head",))
    spread(model, mode, mesh)
    tokens, cuda = batch(sizes, mode), sizes.device == "cuda"
    # One by one, for `tp` leaves some weights whole.
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, foreach=mode == "fsdp")
    times, loss = [], torch.zeros(())
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    for _ in range(WARM + TIMED):
        start = time.perf_counter()
        loss = model(tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    took = median(times[WARM:]) * 1e3
    base.append(took)
    most = torch.cuda.max_memory_allocated() / MIB if cuda else 0
    mean = loss.detach().float()
    dist.all_reduce(mean)
    mean /= dist.get_world_size()
    return (
        f"| {mode}, {name} | {took:.1f} | {base[0] / took:.2f} | {most:.0f} | {float(mean):.4f} |"
    )


def lines(sizes: Sizes, modes: Sequence[str], mesh: DeviceMesh) -> Iterator[str]:
    """The table, in Markdown."""
    yield "| network | ms a step | times as fast | MiB a rank | loss |"
    yield "|---|---|---|---|---|"
    for mode in modes:
        base: list[float] = []
        for name in TRAINED:
            try:
                yield line(sizes, mode, name, base, mesh)
            except ValueError as error:  # a recipe whose scales span the parts of ranks
                yield f"| {mode}, {name}: {error} |"
            gc.collect()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table on rank 0."""
    program = "python -m torch.distributed.run ... -m mxdot.nn.bench_parallel"
    parser = argparse.ArgumentParser(prog=program, description=__doc__)
    add = parser.add_argument
    add("--width", type=int, default=4096, help="features (default 4096)")
    add("--hidden", type=int, default=14336, help="features inside the MLPs (default 14336)")
    add("--tokens", type=int, default=8192, help="tokens of a step (default 8192)")
    add("--device", choices=("cuda", "cpu"), default="cuda")
    add("--only", choices=MODES, help="one way of spreading weights")
    options = parser.parse_args(arguments)
    if not dist.is_torchelastic_launched():
        parser.error("it must be started by torch.distributed.run, as --help shows")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no CUDA GPU: --device cpu shows the table without one")
    for name in ("width", "hidden", "tokens"):
        value = getattr(options, name)
        if value < 128 or value % 128:
            parser.error(f"--{name} must be a multiple of 128, not {value}")
    ranks = int(os.environ["WORLD_SIZE"])
    each = ranks * length_of(options.tokens, ranks)
    if options.tokens % each:
        parser.error(
            f"--tokens of {ranks} ranks must be a multiple of {each}, not {options.tokens}"
        )
    if options.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if options.device == "cuda" else "gloo")
    try:
        _print_lines(options)
    finally:
        dist.destroy_process_group()


def _print_lines(options: argparse.Namespace) -> None:
    mesh = init_device_mesh(options.device, (dist.get_world_size(),))
    shape = options.width, options.hidden, options.tokens
    sizes = Sizes(*shape, options.device, False, "llama")
    first = dist.get_rank() == 0
    if first:
        name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
        ranks = f"{dist.get_world_size()} x {name}"
        print(f"{ranks}, PyTorch {torch.__version__}, llama of {shape[0]} x {shape[1]}\n")
    for text in lines(sizes, (options.only,) if options.only else MODES, mesh):
        if first:
            print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
