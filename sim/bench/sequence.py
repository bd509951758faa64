"""Items on their way to the driver, whole, in a given order."""

from collections.abc import Iterable
from typing import Any

from pyuvm import uvm_sequence, uvm_sequence_item


class UnitItem(uvm_sequence_item):
    """A whole item of the subject; the driver breaks it into beats."""

    def __init__(self, content: Any) -> None:
        super().__init__("item")
        self.content = content


class UnitSequence(uvm_sequence):
    """Items in the order given."""

    def __init__(self, contents: Iterable[Any]) -> None:
        super().__init__("items")
        self.contents = contents

    async def body(self) -> None:
        """Send them all."""
        for content in self.contents:
            item = UnitItem(content)
            await self.start_item(item)
            await self.finish_item(item)
