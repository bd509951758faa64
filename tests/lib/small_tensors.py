"""A small MXTensor, its parts, and the whole message of a refusal."""

import re

import pytest
import torch

from mxdot.gpu import MXTensor

X = torch.ones(4, 64)

CODES = torch.zeros(4, 64, dtype=torch.uint8)

SCALES = torch.zeros(4, 2, dtype=torch.uint8)

A = MXTensor(CODES, SCALES, "e4m3")


def refused(error, message):
    return pytest.raises(error, match=f"^{re.escape(message)}$")
