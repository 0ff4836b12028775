"""File formats: data (LIBSVM text, delimited text, .npy, .npz) and models."""
