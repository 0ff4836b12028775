"""A page about a compiled model: what it was, what it promises, how it did on some rows.

`measure` computes what is shown and `nearest` the rows with least room; `words` and `figures` tell
them, `page` puts them together.
"""
