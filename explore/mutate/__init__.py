"""mxdot.explore.mutate: mutants of the RTL and of the model, and what kills them (`make mutate`)."""
