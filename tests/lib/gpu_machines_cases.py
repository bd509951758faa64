"""Operands and checks that tests of gpu machines share with other tests."""

NARROW = ["float16", "bfloat16", "aligned:13:float16", "aligned:7:bfloat16", "fused:13:float16"]
