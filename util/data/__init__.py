"""mxdot.util.data: tensors of files, and the data sets that every comparison draws from."""
