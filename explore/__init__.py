"""mxdot.explore: what each accumulator costs, and what it does to the result."""
