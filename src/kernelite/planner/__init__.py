"""Choosing how to run an expansion: candidates are built, costed on a sample, and compared.

`planner` chooses for "certified", `calibrated` for the guarantee of that name. `search`,
`third_order` and `local` build what can be chosen (an `option`), `proof_probe` spares proofs that
cannot succeed. The costs that forms and engines state, or clocks (`measure`), rank them. `plan` is
what comes out, and shows itself; `tolerances` say how far values may be off.
"""
