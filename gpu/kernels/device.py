"""Devices that can run the kernels."""

from functools import cache

import torch
import triton

OLDEST = (8, 0)  # the compute capability that Triton's compiler starts from


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter (TRITON_INTERPRET=1), on any device."""
    return triton.knobs.runtime.interpret


def refusal(device: torch.device) -> str | None:
    """Why kernels cannot run on tensors of `device`; None when they can."""
    if interpreted():
        return None
    if device.type != "cuda":
        return f"Triton kernels take CUDA tensors, not {device.type}"
    capability = capability_of(device)
    if capability < OLDEST:
        needed, own = (f"{major}.{minor}" for major, minor in (OLDEST, capability))
        return f"Triton needs compute capability {needed} or later, not {own}"
    return None


def has_fp8_conversion(device: torch.device) -> bool:
    """Whether the GPU has an instruction that rounds float32 to E4M3 and E5M2."""
    return not interpreted() and capability_of(device) >= (8, 9)


@cache
def capability_of(device: torch.device) -> tuple[int, int]:
    """The compute capability of a GPU, asked once: each call would ask the driver."""
    return torch.cuda.get_device_capability(device)
