"""The pyuvm environment of one unit: both agents, and who watches them.

The driver knows the items; monitors, scoreboard, protocol checker and coverage know only the pins.
"""

from pyuvm import uvm_env

from .agent import InputAgent, OutputAgent
from .context import make
from .coverage import Coverage
from .driver import OutputDriver
from .monitor import Monitor
from .protocol import ProtocolChecker
from .scoreboard import Scoreboard
from .watch import Watch


class UnitEnv(uvm_env):
    """Both agents and those who watch them."""

    def build_phase(self) -> None:
        """Make the components."""
        self.input = make(InputAgent, "input", self)
        self.output = make(OutputAgent, "output", self)
        self.scoreboard = make(Scoreboard, "scoreboard", self)
        self.protocol = make(ProtocolChecker, "protocol", self)
        self.watch = make(Watch, "watch", self)
        self.coverage = make(Coverage, "coverage", self)

    @property
    def watching(self) -> tuple[Monitor | ProtocolChecker | OutputDriver, ...]:
        """Who looks at the pins of every cycle, one after the other."""
        return self.input.monitor, self.output.monitor, self.protocol, self.output.driver

    def connect_phase(self) -> None:
        """Connect the monitors to the scoreboard, and both checkers to the coverage."""
        self.watch.watchers += [part.see for part in self.watching]
        self.input.monitor.ap.connect(self.scoreboard.accepted.analysis_export)
        self.output.monitor.ap.connect(self.scoreboard.delivered.analysis_export)
        self.scoreboard.ap.connect(self.coverage.batches.analysis_export)
        self.protocol.ap.connect(self.coverage.events)
