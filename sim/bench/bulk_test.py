"""The cocotb side of bulk mode: start the bench top's own driver, wait for it, report."""

import json
import os
import time
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge


@cocotb.test()
async def bulk(dut: Any) -> None:
    """Run what the bench top does by itself, and write what it counts as JSON."""
    start = time.perf_counter()
    dut.bulk_start.value = 1
    await RisingEdge(dut.bulk_done)
    counts = {
        name: int(getattr(dut, f"bulk_{name}").value)
        for name in ("status", "blocks", "results", "cycles")
        if hasattr(dut, f"bulk_{name}")
    }
    report = counts | {"seconds": time.perf_counter() - start}
    Path(os.environ["MXDOT_BULK_REPORT"]).write_text(json.dumps(report))
