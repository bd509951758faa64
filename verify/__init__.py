"""mxdot.verify: proofs, mutants, coverage, other simulators, soaks and the probe."""
