"""Choosing how to run an expansion: candidates are built, costed on a sample, and compared.

`planner` and `calibrated` choose, for the guarantees of those names. `search`, `third_order` and
`local` build what can be chosen (an `option`), `hope` spares proofs that cannot succeed; `costs`,
or clocks (`measure`), rank them. `plan` is what comes out, and prints itself; `tolerances` say how
far values may be off.
"""
