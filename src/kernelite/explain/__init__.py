"""Why a model answers what it answers: Shapley values, gradients, and how far a label holds.

In: a compiled model and rows. Out: numbers about its exact scores, each with a proven error bound.

    terms       a model as a sum of kernels over centers; which column each feature is of, and what
                derivatives and distances become behind the maps that rows come through
    shapley     exact interventional Shapley values of columns, or groups of them, summed up in
                `sums` by rules of `quadrature`: by the compiled loops of `kernels`, or on a device
    gradients   derivatives of scores, densities and standard deviations, by `centers` and `slopes`
    radius      how far a row may move before its label can change
"""
