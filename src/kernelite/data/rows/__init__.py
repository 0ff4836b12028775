"""What users pass as rows: arrays, sparse matrices and data frames, checked."""
