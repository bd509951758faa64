"""mxdot.verify.mutate: mutants of RTL and Python, and what kills them (`make mutate`)."""
