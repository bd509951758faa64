"""mxdot.explore.run: the engine room under every comparison.

Tasks (`runner.py`) run in processes of this machine or on a Dask cluster (`workers.py`), are kept
under a hash of all that they depend on (`keys.py`, `store.py`), so that a run goes on where it
ended, and are shown as they come (`progress.py`). Every table of results is written by `tables.py`,
every table of a TOML file is checked by `schema.py`, and texts such as `32..48/8` are read by
`sweep.py`.
"""
