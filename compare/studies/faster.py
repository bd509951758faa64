"""The option that makes a unit faster, by the model of its pipeline."""

from ...model import DotConfig
from ...model.pipeline.sections import dot_sections
from ...model.units.dot import MAX_INTERLEAVE


def faster(config: DotConfig) -> str:
    """Which option shortens the slowest stretch between registers, in a few words."""
    slowest = config.pipeline.slowest
    names = " ".join(section.name for section in slowest)
    if len(slowest) == 1 and not slowest[0].cuts:
        return f"its slowest section, {names}, cannot be cut"
    most = config.stage_limits[1]
    turns = min(sum(part.loop for part in dot_sections(config, finer=True)), MAX_INTERLEAVE)
    if any(section.loop for section in slowest) and config.interleave < turns:
        return (
            f"--interleave, up to {turns}, with more --stages, up to {most}, puts registers into "
            "the loop of its running value, which is slowest"
        )
    return f"more --stages, up to {most}, put registers into its slowest stretch, {names}"
