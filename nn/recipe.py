"""Recipe: how the matrix products of a network are quantised."""

from collections.abc import Iterable
from dataclasses import dataclass, fields

from ..gpu.ops import block_scaled, float8, regroup
from ..gpu.ops.unscaled import UNSCALED
from ..model.accumulators import Accumulator, Int32
from ..model.accumulators import accumulator as as_accumulator
from ..model.accumulators.hardware import machine_named, operand_format
from ..model.blocks import LARGEST_BLOCK
from ..model.errors import choice, integer, nearest
from ..model.formats import (
    E4M3FNUZ,
    E5M2FNUZ,
    FORMATS,
    MX_FORMATS,
    ROUNDINGS,
    ElementFormat,
    FloatFormat,
    element_format,
)
from ..model.quantize import SCALE_RULES
from ..model.schemes import CHANNEL, E8M0, SCHEMES, TENSOR, Level, Scheme, block
from ..model.schemes.calibrate import has_integers
from ..model.schemes.integer import check_elements, has_integer_sums
from ..model.schemes.products import check_weight_only
from .hadamard import SIZES, Hadamard
from .multiply import BLOCK_SCALED, FAST, FLOAT8
from .quantizers import (
    MXQuantizer,
    Quantizer,
    SchemeQuantizer,
    Unquantized,
    UnscaledQuantizer,
    group_columns,
)

ROLES = ("weight", "activation", "gradient")
PRODUCTS = (("activation", "weight"), ("gradient", "weight"), ("gradient", "activation"))
DEFAULT = "default"
ELEMENTS = {**MX_FORMATS, **{fmt.name: fmt for fmt in (E4M3FNUZ, E5M2FNUZ)}, **UNSCALED}
"""Element formats of a role."""
SAVED = ("input", "quantized")
GROUPS = ("features", "sums")
LIMITS = ("current", "delayed", "learned", "octav")
CLIPPED_GRADIENTS = ("straight_through", "zero", "magnitude_aware", "hybrid")
LONGEST_WINDOW, LARGEST_MARGIN = 65536, 16
Role = ElementFormat | Scheme | str | None


@dataclass(frozen=True)
class Recipe:
    """Formats and rules of the three products of a linear layer.

    weight, activation, gradient: how each role is quantised: an element format, or a Scheme;
    both by name, or an object of mxdot.model (kept as its name where it has one); None leaves the
    role in the precision it has. ``bf16``, ``fp16`` and ``tf32`` round elements and have no scales,
    other element formats are quantised in MX blocks. `gradient` is the gradient of the layer's
    output; its default is ``e4m3``, and None where weights or activations have a scheme.
    block_size: 1 to 65536; scale_rule: ``floor``, ``ceil`` or ``even``; both of element formats.
    gradient_rounding: ``stochastic`` draws from PyTorch's default generator; weights and
    activations are rounded to nearest even, and so are gradients of ``features``.
    accumulator: ``fast`` multiplies the quantised values by one ordinary matrix product;
    ``float8`` takes the FP8 units for the output, and for the backward products of element formats
    where E4M3 holds them: MX blocks are regrouped (`mxdot.gpu.regroup` says what that rounds), E4M3
    under float scales is multiplied as it is;
    ``block_scaled`` takes units that multiply MXFP8 blocks of 32 (E4M3, or E5M2 on one side), or
    ``nvfp4`` of weights and activations, with their scales: compute capability 10.0 or later,
    elsewhere values in float32; an
    accumulator of mxdot.model, or its text, computes products with those bits (slow, for study):
    all three of element formats, where every role must have one; of schemes the output, where
    the weights must have one.
    machine: a machine's name, or hardware and operands (``ampere-bf16``, ``mi300x-bf16``); its
    accumulator makes all three products, and roles that are ``e4m3``, the default, have the format
    of its operands.
    attention: an element format of both operands of attention's two products, by name or an object
    of mxdot.model, or None for PyTorch's attention (`mxdot.nn.attention` has its bits). An
    accumulator of mxdot.model or a machine's makes these products too, and must take the format;
    with others they are products of values.
    high_precision: names of layers that `convert` leaves alone, with the wildcards of fnmatch.
    saved: what a layer keeps of its input for the weight's gradient: ``input``, all of it, or
    ``quantized``, the codes and scales that are multiplied then; operands are the same.
    groups: along what those of schemes run: ``features`` (K of x and W, N of g), every operand
    quantised once, or ``sums``, the axis that each product sums over, as MX blocks always do.
    hadamard, hadamard_seed: the size (4, 16 or 64; 0 for none) and the seed of the signs of a
    random Hadamard transform of both operands of the weight's gradient, along the axis it sums
    over (`mxdot.nn.hadamard` has its bits). For MX formats, and schemes along ``sums``.
    limits: what the outermost scales are made for: ``current``, the values at hand; ``delayed``,
    the largest magnitude of the last `window` steps (1 to 65536) times 2^`margin` (0 to 16), of
    every role (`advance_scales` ends a step); of weights and activations ``learned``, a Parameter,
    or ``octav``, the clipping of least expected error of the values at hand. For schemes with an
    outermost float scale for the tensor, or of learned and octav weights along ``features`` for
    rows, without zero points; of ``octav`` with integer elements.
    clipped_gradient: the gradient of learned or octav values from their limit m on:
    ``straight_through`` passes it, ``zero`` stops it, ``magnitude_aware`` takes it m / abs(x) times
    (Sakr et al., arXiv:2206.06501), ``hybrid`` does that to weights, and stops activations.

    The default is the published MXFP8 pre-training recipe: E4M3 everywhere, scales rounded up.
    Raises TypeError or ValueError, naming the field.
    """

    weight: Role = "e4m3"
    activation: Role = "e4m3"
    gradient: Role = DEFAULT
    block_size: int = 32
    scale_rule: str = "ceil"
    gradient_rounding: str = "nearest_even"
    accumulator: Accumulator | str = FAST
    high_precision: Iterable[str] = ()
    saved: str = "input"
    groups: str = "features"
    hadamard: int = 0
    hadamard_seed: int = 0
    limits: str = "current"
    window: int = 16
    margin: int = 0
    clipped_gradient: str = "straight_through"
    machine: str | None = None
    attention: ElementFormat | str | None = None

    def __post_init__(self) -> None:
        self._set("block_size", integer("block_size", self.block_size, 1, LARGEST_BLOCK))
        choice("scale_rule", self.scale_rule, SCALE_RULES)
        choice("gradient_rounding", self.gradient_rounding, ROUNDINGS)
        choice("saved", self.saved, SAVED)
        choice("groups", self.groups, GROUPS)
        choice("limits", self.limits, LIMITS)
        choice("clipped_gradient", self.clipped_gradient, CLIPPED_GRADIENTS)
        self._set("hadamard_seed", integer("hadamard_seed", self.hadamard_seed, 0, 2**63 - 1))
        self._set("window", integer("window", self.window, 1, LONGEST_WINDOW))
        self._set("margin", integer("margin", self.margin, 0, LARGEST_MARGIN))
        for role in ROLES:
            self._set(role, self._name(role))
        if self.machine is not None:
            self._take_machine(self.machine)
        self._check_unscaled()
        self._set("high_precision", layer_names("high_precision", self.high_precision))
        if self.once and self.gradient_rounding != "nearest_even":
            raise ValueError(
                "gradient_rounding must be nearest_even for schemes with groups along features, "
                f"not {self.gradient_rounding}"
            )
        self._check_hadamard()
        self._check_limits()
        if self.accumulator == FLOAT8:
            self._check_float8()
        elif self.accumulator == BLOCK_SCALED:
            self._check_block_scaled()
        elif self.accumulator != FAST:
            self._set("accumulator", as_accumulator(self.accumulator))
            self._check_accumulator()
        self._check_attention()
        # Made once: torch.compile reads them, and would not trace what makes a scheme.
        quantizers = {role: self._quantizer(role) for role in ROLES}
        if self.attention is not None:
            quantizers["attention"] = self._of_elements(str(self.attention), "nearest_even")
        self._set("_quantizers", quantizers)
        mix = Hadamard.seeded(self.hadamard, self.hadamard_seed) if self.hadamard else None
        self._set("_mix", mix)

    def __repr__(self) -> str:
        """The roles, and what differs from the defaults; schemes by their names."""
        shown = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ROLES or value != field.default:
                text = str(value) if isinstance(value, Scheme) else repr(value)
                shown.append(f"{field.name}={text}")
        return f"Recipe({', '.join(shown)})"

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the dataclass is frozen

    def _name(self, role: str) -> str | Scheme | None:
        """Value given for a role: a name, or a scheme without one."""
        value = getattr(self, role)
        if role == "gradient" and value == DEFAULT:
            value = None if self.of_schemes else "e4m3"
        if value is None:
            return None
        if isinstance(value, Scheme):
            return value.name if SCHEMES.get(value.name) == value else value
        if isinstance(value, str) and value.strip().lower() in SCHEMES:
            return value.strip().lower()
        if isinstance(value, str) and value.strip().lower() not in FORMATS:
            raise ValueError(
                f"{role} must be a format ({', '.join(ELEMENTS)}) or a scheme "
                f"({', '.join(SCHEMES)}), not {value!r}{nearest(value, [*ELEMENTS, *SCHEMES])}"
            )
        fmt = element_format(value, role)
        if ELEMENTS.get(fmt.name) != fmt:
            raise ValueError(f"{role} must be a format of {', '.join(ELEMENTS)}, not {fmt.name}")
        return fmt.name

    def _take_machine(self, name: str) -> None:
        """The accumulator of a machine, and its format for roles that have the default."""
        rule, fmt = machine_named(name), operand_format(name)
        if self.accumulator not in (FAST, str(rule), rule):
            raise ValueError(
                f"accumulator must be {rule} or left out with machine {name}, not "
                f"{self.accumulator}"
            )
        self._set("machine", name.strip().lower())
        self._set("accumulator", rule)
        for role in ROLES:
            if getattr(self, role) == "e4m3":
                self._set(role, fmt)

    def _check_attention(self) -> None:
        if self.attention is None:
            return
        fmt = element_format(self.attention, "attention")
        if ELEMENTS.get(fmt.name) != fmt:
            raise ValueError(
                f"attention must be a format of {', '.join(ELEMENTS)}, or None, not {fmt.name}"
            )
        self._set("attention", fmt.name)
        rule = self.attention_rule
        if isinstance(rule, Accumulator):
            try:
                rule.check_formats(fmt, fmt)
            except ValueError as error:
                raise ValueError(f"attention must fit the accumulator: {error}") from None

    def _check_unscaled(self) -> None:
        for role in ROLES:
            value = getattr(self, role)
            if value in UNSCALED and self.of_schemes:
                raise ValueError(
                    f"{role} must have scales, or be None, in a recipe with schemes, not {value}"
                )
        if self.gradient in UNSCALED and self.gradient_rounding != "nearest_even":
            raise ValueError(
                f"gradient_rounding must be nearest_even for gradients of {self.gradient}, not "
                f"{self.gradient_rounding}"
            )

    def _check_float8(self) -> None:
        """Check the output's operands for float8; other products may be ``fast``."""
        wanted = f"one of {', '.join(regroup.TAKEN)}"
        if self.of_schemes:
            wanted = "a scheme of e4m3 under one float scale for whole rows or 128 elements"
        for role in ("activation", "weight"):
            value = getattr(self, role)
            fits = value is not None and float8.takes(self._scheme(role))
            if not (fits if self.of_schemes else value in regroup.TAKEN):
                raise ValueError(f"{role} must be {wanted} with accumulator float8, not {value}")
        if not self.of_schemes and regroup.GROUP % self.block_size:
            raise ValueError(
                f"block_size must divide {regroup.GROUP} with accumulator float8, not "
                f"{self.block_size}"
            )

    def _check_block_scaled(self) -> None:
        """Check the output's operands for block_scaled."""
        pair = self.activation, self.weight
        if self.of_schemes:
            if set(pair) != {block_scaled.NVFP4}:
                raise ValueError(
                    "weight and activation with accumulator block_scaled: both must be nvfp4, or "
                    f"neither, not {self.weight} and {self.activation}"
                )
            return
        reason = block_scaled.pair_refusal(*map(str, pair))
        if reason is not None:
            raise ValueError(f"weight and activation with accumulator block_scaled: {reason}")
        if self.block_size != block_scaled.BLOCK:
            raise ValueError(
                f"block_size must be {block_scaled.BLOCK} with accumulator block_scaled, not "
                f"{self.block_size}"
            )

    def _check_accumulator(self) -> None:
        rule = as_accumulator(self.accumulator)
        for role in ("weight",) if self.of_schemes else ROLES:
            if getattr(self, role) is None:
                raise ValueError(
                    f"{role} must have a format with accumulator {self.accumulator}, not None"
                )
        if not self.of_schemes:
            for a, b in PRODUCTS:
                rule.check_formats(ELEMENTS[getattr(self, a)], ELEMENTS[getattr(self, b)])
        elif self.activation is None:
            check_weight_only(rule)
        elif rule.takes_integers:
            check_elements(self._scheme("activation"), self._scheme("weight"))

    def _check_hadamard(self) -> None:
        size = integer("hadamard", self.hadamard, 0, SIZES[-1])
        if size and size not in SIZES:
            raise ValueError(f"hadamard must be 0, {', '.join(map(str, SIZES))}, not {size}")
        if size and self.once:
            raise ValueError(
                f"hadamard must be 0 for schemes with groups along features, not {size}"
            )
        self._set("hadamard", size)

    def _check_limits(self) -> None:
        clips = self.limits in ("learned", "octav")
        if self.clipped_gradient != "straight_through" and not clips:
            raise ValueError(
                "clipped_gradient must be straight_through unless limits are learned or octav, "
                f"not {self.clipped_gradient}"
            )
        looks = clips and (self.limits == "learned" or self.clipped_gradient != "straight_through")
        if looks and self.saved != "input":
            raise ValueError(
                f"saved must be input where gradients depend on what is clipped, not {self.saved}"
            )
        if self.limits == "current":
            return
        for role in ROLES[:2] if clips else ROLES:
            value = getattr(self, role)
            if value is None:
                continue
            by_rows = clips and role == "weight" and self.once
            granularities = (TENSOR, CHANNEL) if by_rows else (TENSOR,)
            scheme = self._scheme(role)
            outermost = scheme.levels[0]
            fits = isinstance(outermost.format, FloatFormat) and not scheme.zero_point
            if not (fits and outermost.granularity in granularities):
                raise ValueError(
                    f"{role} must have a scheme with an outermost float scale for the tensor"
                    f"{' or for rows' if by_rows else ''}, without zero points, with limits "
                    f"{self.limits}, not {value}"
                )
            if self.limits == "octav" and not has_integers(scheme):
                raise ValueError(
                    f"{role} must have integer elements with limits octav, not {value}"
                )

    @property
    def once(self) -> bool:
        """Whether every operand is quantised once, its groups along the features."""
        return self.of_schemes and self.groups == "features"

    @property
    def mix(self) -> Hadamard | None:
        """Transform of both operands of the weight's gradient before they are quantised."""
        return vars(self)["_mix"]

    @property
    def of_schemes(self) -> bool:
        """Whether a role has a scheme; element formats of other roles then count as schemes."""
        return any(
            isinstance(value, Scheme) or value in SCHEMES
            for value in (self.weight, self.activation, self.gradient)
        )

    def _scheme(self, role: str) -> Scheme:
        """The scheme of a role that is not None."""
        value = getattr(self, role)
        if isinstance(value, Scheme):
            return value
        if value in SCHEMES:
            return SCHEMES[value]
        level = Level(block(self.block_size), E8M0, self.scale_rule)
        return Scheme(f"mx_{value}", (ELEMENTS[value],), (level,), "")

    def _quantizer(self, role: str) -> Quantizer:
        value = getattr(self, role)
        if not self.of_schemes:
            if value is None:
                return Unquantized(self.block_size)
            return self._of_elements(value, self.rounding(role))
        if value is None:
            return Unquantized(1)
        together = (role,) if role == "gradient" else ("activation", "weight")
        if not self.once:
            together = ROLES
        columns = group_columns(*(self._scheme(r) for r in together if getattr(self, r)))
        rounding = self.rounding(role)
        return SchemeQuantizer(self._scheme(role), columns, None, rounding, self.once)

    def _of_elements(self, name: str, rounding: str) -> Quantizer:
        if name in UNSCALED:
            return UnscaledQuantizer(name, self.block_size)
        return MXQuantizer(name, self.block_size, self.scale_rule, rounding)

    def quantizer(self, role: str) -> Quantizer:
        """Quantizer of `role`, or of ``attention``."""
        return vars(self)["_quantizers"][role]

    def inference_accumulator(self, in_features: int) -> Accumulator | str:
        """The accumulator of a frozen layer: INT32 in place of ``fast`` where the schemes have it.

        They have where elements are integers under float scales, and no sum can overflow.
        """
        if self.fast and self.of_schemes and None not in (self.weight, self.activation):
            pair = self._scheme("activation"), self._scheme("weight")
            if has_integer_sums(*pair, in_features):
                return Int32()
        return self.accumulator

    @property
    def attention_rule(self) -> Accumulator | str:
        """The accumulator of attention's products, or ``fast``."""
        return self.accumulator if isinstance(self.accumulator, Accumulator) else FAST

    @property
    def transposed_rule(self) -> Accumulator | str:
        """The accumulator of the backward products.

        ``fast`` for schemes whose groups do not run along the axes that are summed over, or that it
        does not take, and where the FP8 or block-scaled units do not take the gradient.
        """
        if not self.of_schemes:
            return FAST if self._leaves_gradient() else self.accumulator
        if self.once or None in (self.weight, self.activation, self.gradient):
            return FAST
        every = [self._scheme(role) for role in ROLES]
        if self.accumulator == FLOAT8:
            return FLOAT8 if all(map(float8.takes, every)) else FAST
        if self.accumulator == BLOCK_SCALED:  # of the output's operands alone
            return FAST
        integers = isinstance(self.accumulator, Accumulator) and self.accumulator.takes_integers
        return FAST if integers and not all(map(has_integers, every)) else self.accumulator

    def _leaves_gradient(self) -> bool:
        """Whether units of narrow floats multiply the output's MX operands, not the gradient."""
        if self.accumulator == FLOAT8:
            return self.gradient not in regroup.TAKEN
        others = self.weight, self.activation
        return self.accumulator == BLOCK_SCALED and any(
            block_scaled.pair_refusal(str(self.gradient), str(other)) for other in others
        )

    @property
    def together(self) -> int:
        """Elements along a sum that operands of MX formats must not be cut within."""
        return regroup.GROUP if self.accumulator == FLOAT8 else self.block_size

    @property
    def fast(self) -> bool:
        """Whether products are ordinary matrix products of quantised values."""
        return self.accumulator == FAST

    def rounding(self, role: str) -> str:
        """Rounding of elements of `role`."""
        return self.gradient_rounding if role == "gradient" else "nearest_even"


def layer_names(name: str, value: Iterable[str]) -> tuple[str, ...]:
    """`value` as a tuple of strings; one string alone would be read letter by letter."""
    several = isinstance(value, Iterable) and not isinstance(value, str)
    names = tuple(value) if several else ()
    if not several or not all(isinstance(x, str) for x in names):
        raise TypeError(f"{name} must be a sequence of layer names, not {value!r}")
    return names
