"""Everything but labels of SVCs: decision values, probabilities, regressors, Gaussian processes.

`cases` has the models, `measure` verifies and times one, `page` shows all, `command` runs them.
"""
