"""Columnar files (Parquet, Arrow, CSV) through pyarrow: rows in, the same rows with answers out."""
