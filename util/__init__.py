"""mxdot.util: what every room uses.

Tasks (`jobs.py`) run in processes of this machine, on a Dask cluster or as Slurm jobs
(`workers.py`). Results are kept under a hash of all that they depend on (`keys.py`, `store.py`), so
that a run goes on where it ended, and are shown as they come (`progress.py`). Every table of
results is written by `tables.py`, every table of a TOML file is checked by `schema.py`, texts
like `32..48/8` are read by `sweep.py`, charts are drawn by `charts/`. Tensors and data sets are in
`data/`.
"""
