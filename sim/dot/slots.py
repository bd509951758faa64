"""What dot products in flight together do, for functional coverage."""

from collections.abc import Callable

from ...model import DotConfig
from ..bench.subject import Bins, Goals, Watcher

APART, NEXT, CHAINED = "another slot", "same slot, next product", "same slot, same product"

FIRST, LATER = "a first block", "a chained block"


def goals(config: DotConfig) -> Goals:
    """The bins that `config` can hit."""
    if config.interleave == 1:
        return {}
    slots = list(range(config.interleave))
    # A block that begins a partial sum waits for none.
    chains = config.interval == 1 or config.accumulator.promotes_every is not None
    return {
        "slot": slots,
        "next_block": [APART, NEXT] + [CHAINED] * chains,
        "end": ["alone", "while others run"],
        "order_of_results": ["as begun", "before an older product"],
        "begins": ["where one has ended", "where a reset has cut one"],
        "waits_for_room": [FIRST, LATER],
    }


class Slots(Watcher):
    """Who is in flight. slot: of the beat on the pins."""

    def __init__(self, slot: Callable[[], int], goals: Goals) -> None:
        self.slot, self.goals = slot, goals
        self.begun: dict[int, int] = {}  # by slot, when its product began: in products
        self.reset()

    def reset(self) -> None:
        """Every product is cut."""
        self.cut = set(self.begun)
        self.begun = {}
        self.products = 0
        self.last = -1  # the slot of the block before

    def accept(self, first: bool, last: bool, at_once: bool) -> Bins:
        """The slot, and how its product stands to the others."""
        slot = self.slot()
        bins: dict[str, set[object]] = {"slot": {slot}}
        if at_once:
            bins["next_block"] = {APART if slot != self.last else NEXT if first else CHAINED}
        if first:
            cut = slot in self.cut
            bins["begins"] = {"where a reset has cut one" if cut else "where one has ended"}
            self.cut.discard(slot)
            self.begun[slot] = self.products
            self.products += 1
        if last:
            began = self.begun.pop(slot)
            bins["end"] = {"while others run" if self.begun else "alone"}
            older = any(other < began for other in self.begun.values())
            bins["order_of_results"] = {"before an older product" if older else "as begun"}
        self.last = slot
        return bins

    def wait(self, first: bool, for_room: bool) -> Bins:
        """What waits for room for a result, be it that of another product, and not for its slot."""
        return {"waits_for_room": {FIRST if first else LATER}} if for_room else {}
