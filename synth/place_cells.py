"""Place cells by Coriolis: python place_cells.py JOB RESULT, two JSON files.

Run by itself by the Python that has Coriolis, it imports nothing of the package. JOB: `row`, the
height of a row; `side`, width and height of the core; `kinds`, width and number of pins of each
kind of cell; `cells`, kind and nets of each cell. A net is a number, -1 for none. RESULT: the
centre of each cell. Widths are rounded to a tenth of a row's height. Ports have no place.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

STEPS = 10
"""Steps of the grid in the height of a row."""


class Placer:
    """A core in a technology of Coriolis, whose rows stand for those of a job."""

    def __init__(self, job: dict[str, Any]) -> None:
        import_module("coriolis.technos.symbolic.cmos")  # sets up the technology
        self.hurricane = import_module("coriolis.Hurricane")
        self.lengths = import_module("coriolis.helpers").l
        frame = import_module("coriolis.CRL").AllianceFramework.get()
        self.library = frame.getLibrary(0)
        self.height = self.hurricane.DbU.toLambda(frame.getCellGauge().getSliceHeight())
        self.metal = self.hurricane.DataBase.getDB().getTechnology().getLayer("METAL1")
        self.job, self.unit = job, job["row"] / self.height

    def centres(self) -> list[tuple[float, float]]:
        """Place all cells."""
        update, size = self.hurricane.UpdateSession, self.hurricane.DbU.toLambda
        update.open()
        kinds = [self._kind(i, *kind) for i, kind in enumerate(self.job["kinds"])]
        core = self._cell("core", round(self.job["side"] / self.job["row"]) * self.height)
        instances = self._instances(core, kinds)
        update.close()
        engine = import_module("coriolis.Etesian").EtesianEngine.create(core)
        engine.place()
        engine.toHurricane()
        boxes = [instance.getAbutmentBox() for instance in instances]
        return [
            (size(box.getXCenter()) * self.unit, size(box.getYCenter()) * self.unit)
            for box in boxes
        ]

    def _cell(self, name: str, wide: float, rows: float = 0.0) -> Any:
        """An empty cell with supplies; as high as wide without `rows`."""
        box, net_of, length = self.hurricane.Box, self.hurricane.Net, self.lengths
        cell = self.hurricane.Cell.create(self.library, name)
        cell.setAbutmentBox(box(length(0), length(0), length(wide), length(rows or wide)))
        for supply, kind in (("vdd", net_of.Type.POWER), ("vss", net_of.Type.GROUND)):
            net = net_of.create(cell, supply)
            net.setExternal(True)
            net.setGlobal(True)
            net.setType(kind)
        return cell

    def _kind(self, number: int, width: float, pins: int) -> Any:
        """A cell of the library: rails, and a pin for each net in its middle."""
        step, length = self.height / STEPS, self.lengths
        wide = max(2, round(width / self.unit / step)) * step
        cell = self._cell(f"kind{number}", wide, self.height)
        rail, middle = self.hurricane.Horizontal, length(wide / 2 // step * step)
        shapes = [
            rail.create(
                cell.getNet(name), self.metal, length(y), length(6), length(0), length(wide)
            )
            for name, y in (("vdd", self.height - 3), ("vss", 3))
        ]
        for pin in range(pins):
            net = self.hurricane.Net.create(cell, f"p{pin}")
            net.setExternal(True)
            ends = length(0.4 * self.height), length(0.6 * self.height)
            shapes.append(self.hurricane.Vertical.create(net, self.metal, middle, length(2), *ends))
        for shape in shapes:
            self.hurricane.NetExternalComponents.setExternal(shape)
        cell.setTerminalNetlist(True)
        return cell

    def _instances(self, core: Any, kinds: list[Any]) -> list[Any]:
        nets: dict[int, Any] = {}
        instances = []
        for index, (kind, pins) in enumerate(self.job["cells"]):
            instance = self.hurricane.Instance.create(core, f"c{index}", kinds[kind])
            instances.append(instance)
            for pin, net in enumerate(pins):
                if net >= 0:
                    if net not in nets:
                        nets[net] = self.hurricane.Net.create(core, f"n{net}")
                    instance.getPlug(kinds[kind].getNet(f"p{pin}")).setNet(nets[net])
        return instances


if __name__ == "__main__":
    job_file, result = map(Path, sys.argv[1:])
    result.write_text(json.dumps(Placer(json.loads(job_file.read_text())).centres()))
