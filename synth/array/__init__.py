"""Matrix units: area against the size of the array, what fits an FPGA, and the roofline."""
