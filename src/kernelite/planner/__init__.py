"""Choosing how to run an expansion: candidates are built, costed on a sample, and compared.

`planner` chooses for "certified", `calibrated` for the guarantee of that name. `search` builds what
can be chosen (`Option`s), `proof_probe` spares proofs that cannot succeed. `costs` ranks them:
counted operations times ten rates; or clocks do (`planner.Finals`). `plan` is what comes out, and
shows itself.
"""
