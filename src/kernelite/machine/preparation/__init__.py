"""What rows go through before a machine sees them: steps, each a small frozen dataclass of data.

`encoding` and `missing` work on columns of anything, `numeric` and `projection` on rows of numbers,
`columns` chooses columns and puts the results side by side. All of it can be stored in a file.
"""
