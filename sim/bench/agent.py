"""An agent for each stream: its driver, its monitor, and the sequencer of the input."""

from pyuvm import uvm_agent, uvm_sequencer

from .context import make
from .driver import InputDriver, OutputDriver
from .monitor import InputMonitor, OutputMonitor


class InputAgent(uvm_agent):
    """Sequencer, driver and monitor of the input stream."""

    def build_phase(self) -> None:
        """Make them."""
        super().build_phase()
        self.sequencer = uvm_sequencer("sequencer", self)
        self.driver = make(InputDriver, "driver", self)
        self.monitor = make(InputMonitor, "monitor", self)

    def connect_phase(self) -> None:
        """Connect driver and sequencer."""
        self.driver.seq_item_port.connect(self.sequencer.seq_item_export)


class OutputAgent(uvm_agent):
    """Driver and monitor of the stream of results."""

    def build_phase(self) -> None:
        """Make them."""
        super().build_phase()
        self.driver = make(OutputDriver, "driver", self)
        self.monitor = make(OutputMonitor, "monitor", self)
