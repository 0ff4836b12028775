"""kernelite on a GPU: labels compared with the CPU's, bounds attacked, then timed."""
