"""The quantiser `mxdot` of the library transformers: import this module, and its method is known.

::

    import mxdot.nn.transformers
    from transformers import AutoModelForCausalLM

    settings = {"quant_method": "mxdot", "recipe": "mxfp8"}
    model = AutoModelForCausalLM.from_pretrained(directory, quantization_config=settings)
    model.save_pretrained(other)  # codes and scales, as NAME.weight_PART
    model = AutoModelForCausalLM.from_pretrained(other)

Weights become codes one by one as they are read. Needs transformers 5.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..model.errors import choice, flag, missing_package

try:
    from transformers.core_model_loading import ConversionOps
except ModuleNotFoundError as error:  # an older one has no such module
    needs = "mxdot.nn.transformers needs transformers 5"
    raise missing_package(error, "transformers", needs, "nn") from None
from transformers.quantizers import HfQuantizer
from transformers.quantizers.auto import register_quantization_config, register_quantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from ..gpu.tensors.container import Container, holds_codes
from .convert import convert, layers_with_products
from .experts import MXExperts
from .linear import MXLinear
from .recipe import Recipe, layer_names
from .recipes import recipe_fields, recipe_of

METHOD = "mxdot"
PART = "weight_"  # begins the names of a weight's parts in a file
LIMITS = ("current", "octav")  # those that a layer keeps nothing of


@register_quantization_config(METHOD)
class MXDotConfig(QuantizationConfigMixin):
    """Settings of the method, which config.json keeps.

    recipe: a Recipe, a name of RECIPES, or fields of a Recipe by name.
    skip: names of layers that stay in high precision, as `convert` takes them; None for those that
    transformers leaves out, the output head and tied layers. A model with another tied layer is
    saved with `freeze` False alone.
    freeze: whether layers hold codes alone; False keeps weights of floats, for training and for
    recipes without formats of weights.
    """

    def __init__(
        self,
        recipe: Recipe | str | Mapping[str, Any] = "mxfp8",
        skip: Sequence[str] | None = None,
        freeze: bool = True,
        quant_method: str = METHOD,
    ) -> None:
        choice("quant_method", quant_method, (METHOD,))
        made = recipe_of(recipe)
        if made.limits not in LIMITS:
            raise ValueError(f"limits must be one of {', '.join(LIMITS)}, not {made.limits}")
        if flag("freeze", freeze) and made.weight is None:
            raise ValueError("weight must have a format or a scheme with freeze, not None")
        self.quant_method = quant_method
        self.recipe = recipe if isinstance(recipe, str) else recipe_fields(made)
        self.skip = None if skip is None else [*layer_names("skip", skip)]
        self.freeze = freeze


@register_quantizer(METHOD)
class MXDotQuantizer(HfQuantizer):
    """Layers of a model become MXLinear before its weights are read, and hold codes after."""

    requires_calibration = False
    quantization_config: Any

    def _process_model_before_weight_loading(self, model: Any, **_: Any) -> Any:
        """Convert on the device meta; a model that is quantised already gets room for its parts."""
        settings = self.quantization_config
        recipe = recipe_of(settings.recipe)
        convert(model, recipe, skip=self._skipped(model, recipe))
        if self.pre_quantized and settings.freeze:
            _freeze_experts(model)
            for layer in _layers(model):
                layer.freeze(keep_weight=False)
                codes = layer.weight.data
                assert isinstance(codes, Container)
                layer.weight_container = codes
                layer.register_parameter("weight", None)
                for name, part in codes.named_parts().items():
                    layer.register_buffer(PART + name, part)
        return model

    def _skipped(self, model: Any, recipe: Recipe) -> list[str]:
        if self.quantization_config.skip is not None:
            return self.quantization_config.skip
        linear, others = layers_with_products(model, recipe)
        names = {*linear, *others}  # a tied embedding is none of them
        return [name for name in self.get_modules_to_not_convert(model) if name in names]

    def param_needs_quantization(self, model: Any, param_name: str, **_: Any) -> bool:
        """Whether a tensor that is read is the weight of a layer that holds codes."""
        name = param_name.removesuffix(".weight")
        is_own = name != param_name and isinstance(model.get_submodule(name), MXLinear)
        return self.quantization_config.freeze and is_own

    def get_quantize_ops(self) -> ConversionOps:
        return Quantize()

    def _process_model_after_weight_loading(self, model: Any, **_: Any) -> Any:
        """Make codes of the parts that were read, and of experts."""
        if not self.pre_quantized and self.quantization_config.freeze:
            _freeze_experts(model)
        for layer in (
            _layers(model) if self.pre_quantized and self.quantization_config.freeze else ()
        ):
            made = layer.__dict__.pop("weight_container")
            parts = {name: layer._buffers.pop(PART + name) for name in made.named_parts()}
            codes = type(made).made_of(parts, made.facts(), made.shape)
            codes.check()
            layer.weight = nn.Parameter(codes, requires_grad=False)
            layer.is_frozen = True
        return model

    def get_state_dict_and_metadata(self, model: Any) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Tensors of a file, which cannot hold containers."""
        for name, layer in model.named_modules():
            if not isinstance(layer, MXLinear):
                continue
            if layer.activation_limits is not None:
                raise ValueError(f"activation_limits of {name} must be None to be saved")
            if self.quantization_config.freeze and layer.keeps_weight:
                raise ValueError(
                    f"skip must name {name} to be saved: its weight is tied, or no file had it"
                )
        parts: dict[str, Tensor] = {}
        for name, tensor in model.state_dict().items():
            if not holds_codes(tensor):
                parts[name] = tensor
                continue
            prefix = name.removesuffix("weight") + PART
            for part, values in tensor.data.named_parts().items():
                parts[prefix + part] = values.contiguous()
        return parts, {}

    def is_serializable(self) -> bool:
        return True

    @property
    def is_trainable(self) -> bool:
        return not self.quantization_config.freeze

    @property
    def is_qat_trainable(self) -> bool:
        return not self.quantization_config.freeze

    @property
    def is_compileable(self) -> bool:
        return True


class Quantize(ConversionOps):
    """A weight that was read becomes the codes of its layer."""

    @torch.no_grad()
    def convert(
        self,
        input_dict: dict[str, Any],
        *,
        full_layer_name: str = "",
        model: Any = None,
        missing_keys: set[str] | None = None,
        **_: Any,
    ) -> dict[str, Tensor]:
        (value,) = input_dict.values()
        weight = value[0] if isinstance(value, list) else value
        layer = model.get_submodule(full_layer_name.rpartition(".")[0])
        layer.weight = nn.Parameter(weight, requires_grad=False)
        layer.freeze(keep_weight=False)
        layer.weight._is_hf_initialized = True
        layer._is_hf_initialized = layer.bias is None
        if missing_keys is not None:
            missing_keys.discard(full_layer_name)
        return {}


def _freeze_experts(model: nn.Module) -> None:
    """Make layers of codes of stacked experts, which files hold for each expert."""
    for module in [*model.modules()]:
        if isinstance(module, MXExperts):
            module.freeze(keep_weight=False)


def _layers(model: nn.Module) -> Iterator[MXLinear]:
    return (layer for layer in model.modules() if isinstance(layer, MXLinear))
