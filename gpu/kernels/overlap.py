"""Launches that overlap with the one ahead (CUDA's programmatic dependent launch).

A kernel with the option `launch_pdl` may start when all programs of the one ahead have begun.
`ready` lets it wait there until what that kernel writes can be read. It must stand before the first
access of memory, in every program of every kernel with the option: then all that ran before is
done, too.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from . import device

CAPABILITY = (9, 0)


def overlaps(where: torch.device) -> bool:
    """Whether kernels on a device may start early."""
    return not device.interpreted() and device.capability_of(where) >= CAPABILITY


@triton.jit
def ready(EARLY: tl.constexpr):
    """Let the next kernel start; wait for the one ahead."""
    if EARLY:
        gdc_launch_dependents()
        gdc_wait()
