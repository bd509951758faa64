"""The sections of a dot unit's datapath and where its registers stand, as data.

A section is combinational; a register may stand after each one. Some registers are part of the
function: the one that holds the running value is always there. The others are chosen so that the
slowest stretch between two registers is as fast as it can be, by the sections' rough delays.
"""

from dataclasses import dataclass

from .accumulators import Accumulator, Aligned, Exact, Fixed, Float32, Fused, Int32, Preset


@dataclass(frozen=True)
class Section:
    """`delay` is a rough number of gate levels: it places registers and predicts no time.

    `number` tells sections of one kind apart. `holds` marks the register after it as the running
    value's; `loop` marks sections through which that value passes on its way round.
    """

    kind: str
    delay: int
    number: int | None = None
    holds: bool = False
    loop: bool = False

    @property
    def name(self) -> str:
        """Its kind and number."""
        return self.kind if self.number is None else f"{self.kind}{self.number}"


@dataclass(frozen=True)
class Pipeline:
    """Sections in order, and the indices of those with a register after them."""

    sections: tuple[Section, ...]
    registered: frozenset[int]

    @property
    def latency(self) -> int:
        """Cycles from accepting a dot product's last block to its result being valid."""
        return len(self.registered)

    @property
    def path(self) -> str:
        """The sections by name, a bar for each register."""
        return " ".join(
            section.name + (" |" if index in self.registered else "")
            for index, section in enumerate(self.sections)
        )

    @property
    def interval(self) -> int:
        """Cycles between two blocks of one dot product that wait for each other's result.

        Blocks that start a sum of their own are accepted every cycle.
        """
        loop = [i for i in self.registered if self.sections[i].loop]
        return max(1, len(loop))


def steps_per_block(accumulator: Accumulator, lanes: int) -> int:
    """Steps in which a block of `lanes` elements is taken: more than one for presets only."""
    return -(-lanes // accumulator.terms) if isinstance(accumulator, Preset) else 1


def sections(accumulator: Accumulator, lanes: int, out: str) -> tuple[Section, ...]:
    """The datapath of an accumulator: `lanes` elements a block, result in format `out`."""
    tree = 4 * (lanes - 1).bit_length()
    body: list[Section]
    if isinstance(accumulator, Aligned):
        body = [
            Section("largest", tree),
            Section("align", 12),
            Section("sum", 10 + tree),
            Section("normalize", 18),
            Section("accumulate", 40, holds=True, loop=True),
        ]
    elif isinstance(accumulator, Exact | Int32):
        body = [
            Section("place", 12),
            Section("sum", 14 + tree),
            Section("normalize", 22),
            Section("accumulate", 45, holds=True, loop=True),
        ]
    elif isinstance(accumulator, Fixed):
        body = [
            Section("place", 12),
            Section("sum", 14 + tree),
            Section("scale", 24),
            Section("accumulate", 20, holds=True, loop=True),
            Section("round", 26),
        ]
    elif isinstance(accumulator, Float32):
        levels = (lanes - 1).bit_length()
        body = [Section("tree", 40, i + 1) for i in range(levels)]
        body.append(Section("accumulate", 40, holds=True, loop=True))
    elif isinstance(accumulator, Fused | Preset):
        steps = steps_per_block(accumulator, lanes)
        promote = accumulator.promote if isinstance(accumulator, Preset) else None
        # A partial sum that is promoted after every block has no way round.
        around = promote is None or lanes < promote
        body = [Section("largest", tree)]
        for i in range(steps):
            body += [
                Section("join", 22, i, loop=around),
                Section("sum", 10 + tree, i, loop=around),
                Section("round", 24, i, holds=i == steps - 1, loop=around),
            ]
        if promote is not None:
            body.append(Section("promote", 40, holds=True))
    else:
        raise TypeError(f"accumulator {accumulator} has no datapath")
    convert = [] if out == "float32" else [Section("convert", 14)]
    return (Section("multiply", 18), *body, *convert)


def integer_sections(lanes: int, rescale: str | None, corrects: bool) -> tuple[Section, ...]:
    """The datapath of a unit whose running value is INT32 and whose result is an integer.

    rescale: how the sum is requantised, ``multiply``, ``shift`` or not at all (None). corrects:
    whether block sums meet zero points or integer scales.
    """
    tree = 4 * (lanes - 1).bit_length()
    return (
        Section("multiply", max(18, 8 + tree) if corrects else 18),
        Section("sum", 14 + tree),
        *([Section("correct", 34)] if corrects else []),
        Section("accumulate", 22, holds=True, loop=True),
        *([Section("rescale", 40)] if rescale == "multiply" else []),
        *([Section("limit", 30)] if rescale else []),
    )


def stage_limits(parts: tuple[Section, ...]) -> tuple[int, int]:
    """The fewest and the most registers that these sections can have."""
    return sum(s.holds for s in parts), len(parts)


def place(parts: tuple[Section, ...], stages: int) -> Pipeline:
    """The pipeline of `stages` registers whose slowest stretch is as fast as it can be."""
    ends = range(1, len(parts) + 1)
    stretches = {sum(s.delay for s in parts[i:j]) for j in ends for i in range(j)}
    for limit in sorted(stretches):
        cuts = _cuts(parts, limit)
        if cuts is not None and len(cuts) <= stages:
            break
    else:
        raise ValueError(f"stages must be at least {stage_limits(parts)[0]}, not {stages}")
    # What is left over comes late, where values are narrow, and last into a loop, which it slows.
    spare = [i for i in range(len(parts)) if i not in cuts]
    spare.sort(key=lambda i: (parts[i].loop, -i))
    return Pipeline(parts, frozenset(cuts) | frozenset(spare[: stages - len(cuts)]))


def _cuts(parts: tuple[Section, ...], limit: int) -> set[int] | None:
    """The fewest registers, the mandatory ones included, with no stretch slower than `limit`."""
    cuts = {i for i, s in enumerate(parts) if s.holds}
    stretch = 0
    for i, section in enumerate(parts):
        if section.delay > limit:
            return None
        if stretch + section.delay > limit:
            cuts.add(i - 1)
            stretch = 0
        stretch = 0 if section.holds else stretch + section.delay
    return cuts
