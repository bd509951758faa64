"""Checks of arguments that the commands of proofs and mutants share."""


def limit_above_0(limit: float) -> None:
    """ValueError unless `limit`, in seconds, is positive."""
    if not limit > 0:
        raise ValueError(f"limit must be above 0, not {limit:g}")
