"""Why a model answers what it answers: Shapley values, gradients, and how far a label holds.

In: a compiled model and rows. Out: numbers about its exact scores, each with a proven error bound.

    terms       a model as a sum of kernels over centers, and which column each feature is of
    players     columns that users pass, or groups of them
    shapley     exact interventional Shapley values, summed up in `sums` by rules of `quadrature`:
                on processors by `tiles`, with the compiled loops of `kernels`, or on a device
    gradients   derivatives of scores and densities, by `centers` and `slopes`; `deviations` has
                those of standard deviations
    radius      how far a row may move before its label can change (RBF kernels: `balls`)
    maps        derivatives and distances behind what rows come through
"""
