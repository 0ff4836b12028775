"""How stages run on this CPU: prepare once, run on many rows.

`kernels/` are compiled ahead; every one has a slow twin, a definition in `series` or `machine`.
`approximation` has the stages of forms, `local` and `exact` those that sum over centers, `parts`
those of models with parts, `rows` those for rows with features beyond the width. `runner` takes
rows through a cascade of stages, block by block.
"""
