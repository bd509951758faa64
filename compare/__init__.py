"""mxdot.compare: what each accumulator costs, and what it does to the result."""
