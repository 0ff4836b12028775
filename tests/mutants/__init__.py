"""Changes of the source that tests must notice: `make mutants`."""
