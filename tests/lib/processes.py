"""Processes that a process has started, and their ends."""

import time
from collections.abc import Callable, Collection
from pathlib import Path


def descendants(root: int) -> set[int]:
    """Process ids below `root`."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = set(), [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


def alive(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def comes(condition: Callable[[], bool], limit: float = 30.0) -> bool:
    """Whether `condition` is true, at the latest after `limit` seconds."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def ended(pids: Collection[int], limit: float = 20.0) -> bool:
    """Whether all of them are gone, at the latest after `limit` seconds."""
    return comes(lambda: not any(map(alive, pids)), limit)
