"""What goes wrong around a matrix unit: each leaves the documented status and harms no other job.

A fault is a coroutine of a Bench. After each the bench runs a job, which must come out right.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...model.units.matmul.config import MatmulConfig
from . import counters, misuse, packets, resets
from .bench import Bench


@dataclass(frozen=True)
class Fault:
    """run: makes it and checks what follows. side: the stream that the unit must have."""

    run: Callable[[Bench], Coroutine[Any, Any, None]]
    side: str = "a"


def applies(fault: Fault, config: MatmulConfig) -> bool:
    """Whether the unit can have this fault."""
    return fault.side in (*config.inputs, "c")


FAULTS = {
    "constants": Fault(misuse.says_what_it_is),
    **{
        f"packet {side} {kind}": Fault(partial(packets.wrong_packet, side=side, kind=kind), side)
        for side in ("a", "b", "d")
        for kind in ("early_last", "late_last", "keep")
    },
    "soft reset, nothing follows": Fault(partial(resets.nothing_follows, soft=True)),
    "pin reset, nothing follows": Fault(partial(resets.nothing_follows, soft=False)),
    "soft reset, senders go on before they began": Fault(resets.senders_not_begun),
    "soft reset, senders go on amid their packets": Fault(resets.senders_amid),
    "both end early": Fault(packets.both_end_early),
    "errors stay": Fault(misuse.errors_stay),
    "a D that nobody asked for": Fault(packets.nobody_asked, "d"),
    **{
        f"stops {side}": Fault(partial(packets.stops, side=side), side)
        for side in ("a", "b", "c", "d")
    },
    "counters near their ends": Fault(counters.near_ends),
    "zero shape": Fault(misuse.zero_shape),
    "unknown format": Fault(misuse.unknown_format),
    "unknown option": Fault(misuse.unknown_option),
    "values too large": Fault(misuse.too_large),
    "start while busy": Fault(misuse.start_while_busy),
    "write while busy": Fault(misuse.write_while_busy),
    "reads while busy": Fault(misuse.reads_while_busy),
    "unknown addresses": Fault(misuse.unknown_addresses),
    "errors one by one": Fault(misuse.errors_one_by_one),
    "single bytes": Fault(misuse.single_bytes),
    "every bit": Fault(misuse.every_bit),
    "long counts": Fault(misuse.long_counts),
    "interrupt": Fault(misuse.interrupt),
    **{
        f"{'soft' if soft else 'pin'} reset, {phase}": Fault(
            partial(resets.reset, phase=phase, soft=soft)
        )
        for soft in (True, False)
        for phase in resets.PHASES
    },
}
"""By name."""
