"""Models that obey the representer theorem can be given as arrays: here kernel ridge regression.

f(z) = sum_i a_i exp(-gamma |x_i - z|^2) + b
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.kernel_ridge import KernelRidge

import kernelite as kl

X, y = load_diabetes(return_X_y=True)
ridge = KernelRidge(kernel="rbf", gamma=4.0, alpha=0.1).fit(X, y)

machine = kl.KernelExpansion(ridge.X_fit_, ridge.dual_coef_, 0.0, gamma=ridge.gamma)
fast = kl.compile(machine, X)
print(fast.plan)

difference = np.abs(fast.predict(X) - ridge.predict(X)).max()
print(f"largest difference {difference:.3g}, of values with deviation {np.std(y):.3g}")
