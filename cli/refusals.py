"""Refusals of options that would have no effect."""

import argparse
from collections.abc import Iterable


def refuse(args: argparse.Namespace, names: Iterable[str], why: str) -> None:
    """ValueError for the first of these options that is given; None and False are not given."""
    for name in names:
        value = getattr(args, name.replace("-", "_"))
        if value is not None and value is not False:
            raise ValueError(f"{name} has no effect {why}")


def refuse_results(args: argparse.Namespace) -> None:
    """ValueError for `--json` where `--list` or `--dry-run` leaves nothing to write."""
    for name in ("list", "dry-run"):
        if getattr(args, name.replace("-", "_")):
            refuse(args, ["json"], f"with --{name}, which runs nothing")
