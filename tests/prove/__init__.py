"""What the package states of its exponentials, logarithm and sine, proven by Sollya and Gappa.

`python -m tests.prove` reads the constants in the source, asks both tools, and prints a table.
"""
