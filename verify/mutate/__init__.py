"""mxdot.verify.mutate: mutants of RTL and model, and what kills them (`make mutate`)."""
