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
    """Run the bench top's program and write how it went as JSON."""
    start = time.perf_counter()
    dut.bulk_start.value = 1
    await RisingEdge(dut.bulk_done)
    report = {
        "status": int(dut.bulk_status.value),
        "cycles": int(dut.bulk_cycles.value),
        "seconds": time.perf_counter() - start,
    }
    Path(os.environ["MXDOT_BULK_REPORT"]).write_text(json.dumps(report))
