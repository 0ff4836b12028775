"""Long runs of fuzzing, soaking and attacking, kept as figures for the docs."""
