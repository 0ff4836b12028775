"""A page about a compiled model: what it was, what it promises, how it did on some rows."""
