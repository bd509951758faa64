"""The numeric contract in exact rational arithmetic: the oracle of the tests.

Slow and obvious on purpose: one element at a time, plain Python, a `Fraction` for every real
number. It is written from docs/numerics.md ("section n" refers to it) and shares no code with
`mxdot`. Where an integer stands for a number, its unit is written beside it.

formats   elements, float32, quantisation of one block (sections 1 and 2)
dot       products, accumulators, machines (sections 3 and 4)
schemes   quantisation and products of block-scaling schemes (sections 6 and 7)
by_hand   blocks of numbers that a format holds exactly, for facts checked by hand
"""
