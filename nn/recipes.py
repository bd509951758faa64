"""Recipes by name: how the field trains and serves networks, as `Recipe`s.

To add one, add a row. A part of a recipe is left out by `dataclasses.replace`.
"""

from dataclasses import replace

from .recipe import Recipe

_FP8 = Recipe("fp8_e4m3_tensor", "fp8_e4m3_tensor", "fp8_e5m2_tensor", groups="sums")
_INT4 = Recipe("int4_channel", "int4_tensor", clipped_gradient="hybrid", limits="octav")

RECIPES: dict[str, Recipe] = {
    "fp8_current": _FP8,
    "fp8_delayed": replace(_FP8, limits="delayed"),
    "fp8_blocks": Recipe("fp8_e4m3_128x128", "fp8_e4m3_b128", "fp8_e4m3_b128", groups="sums"),
    "mxfp8": Recipe(),
    "nvfp4": Recipe(
        "nvfp4_16x16",
        "nvfp4",
        "nvfp4",
        gradient_rounding="stochastic",
        groups="sums",
        hadamard=16,
    ),
    "w8a8": Recipe("int8_channel", "int8_affine"),
    "int4_weights": Recipe("int4_g128", None),
    "int4_octav": _INT4,
    "int4_learned": replace(_INT4, limits="learned", clipped_gradient="zero"),
}
SOURCES = {
    "fp8_current": "Micikevicius et al., arXiv:2209.05433",
    "fp8_delayed": "after the same",
    "fp8_blocks": "DeepSeek-V3, arXiv:2412.19437, section 3.3",
    "mxfp8": "Mishra et al., arXiv:2506.08027",
    "nvfp4": "NVIDIA, arXiv:2509.25149, section 4",
    "w8a8": "Krishnamoorthi, arXiv:1806.08342",
    "int4_weights": "after Frantar et al., GPTQ, arXiv:2210.17323",
    "int4_octav": "Sakr et al., arXiv:2206.06501",
    "int4_learned": "Esser et al., LSQ, arXiv:1902.08153",
}
