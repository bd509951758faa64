"""Operands and checks that tests of compare study share with other tests."""

STUDY = """
title = "Two formats"
[[sweep]]
format = ["e4m3", "int8"]
accumulator = "exact,aligned:6..8/2"
lanes = [4, 8]
status = false
[[sweep]]
format = "e5m2"
accumulator = "fixed:40:-20"
lanes = 8
stages = "2..3"
[[extra]]
name = "mine"
verilog = ["a.v", "b.v"]
top = "mac"
parameters = { WIDTH = 8 }
[cost]
flow = "gates"
target_levels = [30, 40]
effort = "area"
[accuracy]
data = ["normal", "outliers"]
lengths = [64, 32]
count = 10
seed = 3
encoder = 2
"""


MINE = '[[extra]]\nname = "mine"\nverilog = "a.v"\ntop = "mac"\n'
