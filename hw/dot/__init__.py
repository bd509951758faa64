"""The dot unit: lanes, the sections of every accumulator, and the unit itself."""
