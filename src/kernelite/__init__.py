"""kernelite: fast prediction with RBF kernel machines."""
