"""How forms and expansions are evaluated: prepare once, run on many rows."""
