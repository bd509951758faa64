"""What can go wrong in a synthesis, told in one line."""


class SynthesisError(ValueError):
    """A design, library or target that a flow cannot serve; the message is one line."""
