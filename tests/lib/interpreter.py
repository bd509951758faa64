"""Device of the Triton tests: CUDA, or the CPU under Triton's interpreter.

Import this before any kernel.
"""

import importlib.util
import os

import pytest
import torch


def prepare() -> None:
    """Switch the interpreter on.

    Triton 3.6 makes loop bounds of arrays of one element by int(), which NumPy 2.4 refuses.
    Launches that only a GPU would refuse fail here too.
    """
    os.environ["TRITON_INTERPRET"] = "1"
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched
    launch = interpreter.GridExecutor.__call__

    def checked(executor, *arguments, num_warps=4, num_stages=1, **constants):
        assert num_warps in (1, 2, 4, 8, 16, 32), f"num_warps of {executor.fn}: {num_warps}"
        assert num_stages >= 1, f"num_stages of {executor.fn}: {num_stages}"
        limits = zip(executor.grid, (2**31, 2**16, 2**16), strict=False)
        assert all(count < limit for count, limit in limits), f"grid of {executor.fn}"
        launch(executor, *arguments, **constants)

    interpreter.GridExecutor.__call__ = checked


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if importlib.util.find_spec("triton") and DEVICE == "cpu":
    prepare()

for_kernels = [
    pytest.mark.triton,
    # The interpreter truncates infinite terms, whose sum is not looked at, by NumPy.
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
