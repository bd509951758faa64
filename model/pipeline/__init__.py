"""The sections of a datapath, their delays and widths, and where registers stand among them."""
