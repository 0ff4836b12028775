"""Rows from files, hostile until parsed: LIBSVM text, delimited text, .npy, .npz, and `columnar/`.

`data` is the front and `dataset` what comes out; `scan` is the one reader of all formats, with a
file per format beside it. `lines` reads text, `parsing` has its numbers, and what is done about
defects. `columnar/` streams Parquet, Arrow and CSV (extra `arrow`).
"""
