"""A network and what it is evaluated on: of a model's directory, or the encoder of `real`."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...model.errors import choice, integer, reason_of
from ...model.files import read_array, read_bytes, read_text
from ...util.data.encoder import OFFLINE, load_encoder
from ...util.data.sentences import SENTENCES
from .directory import LARGEST_JSON, load_model

ENCODER = "encoder"
TOKENIZER = "tokenizer.json"
LONGEST = 2**20  # tokens of a sequence
LARGEST_TEXT = 2**26  # bytes
LARGEST_TOKENS = 2**32  # bytes


@dataclass(frozen=True)
class Network:
    """model: in float32 and evaluation mode. batches: arguments of its forward, of some sequences.
    inputs: what they are, for people. is_causal: whether it says of each token which comes next.
    is_text: whether the inputs are somebody's text, and not random.
    """

    model: nn.Module
    batches: list[dict[str, Tensor]]
    inputs: str
    is_causal: bool = False
    is_text: bool = False


def load_network(
    model: str | Path,
    *,
    device: str = "cpu",
    text: Path | None = None,
    tokens: Path | None = None,
    sequences: int = 8,
    length: int = 128,
    seed: int = 0,
) -> Network:
    """A model's directory, or ``encoder`` for that of the extra `real` with its own sentences.

    text: a file to read by the directory's tokenizer.json; tokens: a .npy file of integers
    (sequences, length); neither draws tokens from the whole vocabulary with `seed`.
    device: where model and batches are, ``cpu`` or ``cuda``. sequences: the most to take, 1 to
    4096. length: tokens of each, of `text` and of random ones.
    Raises ValueError, naming the argument or the file; ImportError for a package that is missing.
    """
    choice("device", device, ("cpu", "cuda"))
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be cpu where there is no CUDA device, not cuda")
    integer("sequences", sequences, 1, 4096)
    integer("length", length, 1, LONGEST)
    integer("seed", seed, 0)
    if text is not None and tokens is not None:
        raise ValueError("text and tokens exclude each other")
    os.environ.update(dict.fromkeys(OFFLINE, "1"))
    if model == ENCODER:
        if text is not None or tokens is not None:
            raise ValueError(f"{'tokens' if text is None else 'text'} and {ENCODER} exclude each "
                             "other: it reads sentences of its own")  # fmt: skip
        encoder, read = load_encoder(), SENTENCES[:sequences]
        batches = [dict(encoder.tokens(sentence)) for sentence in read]
        return _on(device, Network(encoder.transformer, batches, f"{len(read)} sentences"))
    directory = Path(model)
    made = load_model(directory)
    config: Any = made.config
    vocabulary = getattr(config, "vocab_size", None)
    if not isinstance(vocabulary, int) or vocabulary < 1:
        raise ValueError(f"model must read tokens, not {type(made).__name__}")
    if tokens is not None:
        rows, inputs = _array(tokens, vocabulary)[:sequences], f"tokens of {tokens}"
    elif text is not None:
        read = _read_text(text, directory / TOKENIZER)
        rows, inputs = _cut(read, length, vocabulary, text)[:sequences], f"text of {text}"
    else:
        rng = np.random.default_rng(seed)
        rows, inputs = rng.integers(0, vocabulary, (sequences, length)), "random tokens"
    most = getattr(config, "max_position_embeddings", None)
    if isinstance(most, int) and rows.shape[1] > most:
        raise ValueError(
            f"length must be at most {most}, the model's positions, not {rows.shape[1]}"
        )
    both = getattr(config, "is_encoder_decoder", False)
    batches = [dict(_arguments(torch.from_numpy(row[None]), both)) for row in rows]
    inputs = f"{len(rows)} sequences of {rows.shape[1]}, {inputs}"
    causal = not both and made.can_generate()
    is_text = text is not None or tokens is not None
    return _on(device, Network(made, batches, inputs, causal, is_text))


def _on(device: str, network: Network) -> Network:
    batches = [{name: x.to(device) for name, x in batch.items()} for batch in network.batches]
    return replace(network, model=network.model.to(device), batches=batches)


def _arguments(row: Tensor, both: bool) -> Iterator[tuple[str, Tensor]]:
    """A sequence, for the encoder and for a decoder."""
    yield "input_ids", row
    if both:
        yield "decoder_input_ids", row


def _array(path: Path, vocabulary: int) -> np.ndarray:
    try:
        rows = read_array(path, LARGEST_TOKENS)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"tokens must be a .npy file, not {str(path)!r}: {reason_of(error)}"
        ) from None
    if rows.dtype.kind not in "iu" or rows.ndim != 2:
        raise ValueError(f"tokens must be integers (sequences, length) in {str(path)!r}")
    return _checked(rows, vocabulary, path)


def _read_text(path: Path, tokenizer: Path) -> list[int]:
    from tokenizers import Tokenizer

    try:
        text = read_text(path, LARGEST_TEXT)
    except (OSError, UnicodeDecodeError) as error:
        reason = reason_of(error)
        raise ValueError(f"text must be a file in UTF-8, not {str(path)!r}: {reason}") from None
    try:
        reader: Any = Tokenizer.from_buffer(read_bytes(tokenizer, LARGEST_JSON))
    except Exception as error:  # the library's own kind has no name
        raise ValueError(
            f"text needs {tokenizer}, a tokenizer: {reason_of(error)}; --tokens takes integers"
        ) from None
    return reader.encode(text).ids


def _cut(tokens: list[int], length: int, vocabulary: int, path: Path) -> np.ndarray:
    """Whole sequences of `length`; a shorter text is one."""
    size = min(length, len(tokens))
    count = len(tokens) // size if size else 0
    return _checked(np.array(tokens[: count * size]).reshape(count, size), vocabulary, path)


def _checked(rows: np.ndarray, vocabulary: int, path: Path) -> np.ndarray:
    if not rows.size:
        raise ValueError(f"{path} must hold at least one token, not none")
    low, high = int(rows.min()), int(rows.max())
    if low < 0 or high >= vocabulary:
        raise ValueError(
            f"{path} must hold tokens from 0 to {vocabulary - 1}, not {low if low < 0 else high}"
        )
    return rows.astype(np.int64)
