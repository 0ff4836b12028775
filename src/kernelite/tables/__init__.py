"""Files, hostile until parsed: data (LIBSVM text, delimited text, .npy, .npz) and models.

Data: `data` is the front, `scan` the one reader of all formats, with a file a format beside it.
Models: `store` (`.kernelite`, by `packing` and `registry`) and `approxsvm`; `model_kind` tells them
apart. `files` opens and writes, `lines` reads text, `defects` are what is wrong with it.
"""
