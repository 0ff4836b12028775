"""Model files: `.kernelite` and approxsvm's text; hostile until parsed."""
