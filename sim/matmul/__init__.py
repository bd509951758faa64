"""Matrix units in a regression, and a real layer through one."""
