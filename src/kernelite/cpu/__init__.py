"""How forms and expansions are evaluated: prepare once, run on many rows.

`blas` is the twin that every fast path is compared with; `jit*` are compiled by numba, one file a
kernel; `exact` and `local` sum over centers. `forms` chooses the engine of a form, `tiers` passes
open rows on to the next one, `composite` does so for models of several parts.
"""
