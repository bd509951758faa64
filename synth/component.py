"""A measured unit as a component model of `hwcomponents`, which AccelForge and others read.

The result is one Python file that needs `hwcomponents` alone: area in square metres, leakage in
watts, energy in joules and latency in seconds. An action's energy is without leakage, which the
package adds by time.
"""

import re

from ..model import DotConfig
from .energy import Energy
from .flow import Cost, Flow

TEMPLATE = '''\
"""{title}

Written by mxdot: {tool}; data {data}, a clock of {clock_ps:.1f} ps.
"""

from hwcomponents import ActionCost, ComponentModel, action


class {name}(ComponentModel):
    """{title}"""

    component_name = ["{name}", "{alias}"]
    priority = 0.9

    def __init__(self, lanes: int = {lanes}):
        if lanes != {lanes}:
            raise ValueError(f"lanes must be {lanes}, not {{lanes}}")
        super().__init__(leak_power={leakage:.6g}, area={area:.6g})
        self.lanes = lanes

    def _cost(self, energy: float, cycles: int, rate: float = {clock:.6g}) -> ActionCost:
        return ActionCost(energy, cycles * {seconds:.6g}, rate)

    @action
    def compute(self) -> ActionCost:
        """Multiply and add one block of {lanes} products."""
        return self._cost({compute:.6g}, {latency}, {rate:.6g})

    @action
    def compute_zeros(self) -> ActionCost:
        """One block whose elements are 0."""
        return self._cost({zeros:.6g}, {latency}, {rate:.6g})

    @action
    def wait(self) -> ActionCost:
        """One cycle without a block, at operands that stay."""
        return self._cost({wait:.6g}, 1)

    @action
    def stall(self) -> ActionCost:
        """One cycle in which no result is taken."""
        return self._cost({stall:.6g}, 1)
'''


def component(config: DotConfig, flow: Flow, cost: Cost, energy: Energy) -> str:
    """Python text of the component; ValueError for the flow `gates`, which has no joules."""
    if energy.unit != "fJ" or energy.clock_ps is None:
        raise ValueError("a component needs a process or a library, not the flow gates")
    leakage = energy.parts["leakage"] * energy.blocks * config.lanes / energy.cycles
    leakage /= energy.clock_ps  # milliwatts
    where = flow.process or cost.extra["library"]
    where += f" with wires ({flow.wires})" if flow.wires else ""
    words = re.findall(r"[A-Za-z0-9]+", f"mxdot {config} {where}")

    def joules(milliwatts: float) -> float:
        """Energy of a cycle without leakage."""
        return (milliwatts - leakage) * (energy.clock_ps or 0.0) * 1e-15

    return TEMPLATE.format(
        title=f"Dot unit {config} in {where}.",
        tool=energy.tool,
        data=energy.data,
        clock_ps=energy.clock_ps,
        name="".join(word.capitalize() for word in words),
        alias="_".join(words).lower(),
        lanes=config.lanes,
        leakage=leakage * 1e-3,
        area=cost.area * 1e-12,
        seconds=energy.clock_ps * 1e-12,
        clock=1e12 / energy.clock_ps,
        rate=1e12 / energy.clock_ps * energy.blocks / energy.cycles,
        latency=config.latency,
        compute=(energy.per_product - energy.parts["leakage"]) * config.lanes * 1e-15,
        zeros=joules(energy.idle["zeros"]) * energy.cycles / energy.blocks,
        wait=joules(energy.idle["waiting"]),
        stall=joules(energy.idle["stalled"]),
    )
