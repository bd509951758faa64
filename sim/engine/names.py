"""Names of units in a regression: of their rows, their files, and to repeat one of them.

A configuration has a `name` of any length; files are called by `file_name` of it.
"""

import hashlib

LONGEST = 80
"""Characters of a name: file systems take 255, and a line of the summary little more than this."""
_DIGEST = 16


def file_name(name: str) -> str:
    """`name`, or of one that is too long for a file its beginning and a digest of it all."""
    if len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{name[: LONGEST - _DIGEST - 1]}-{digest}"
