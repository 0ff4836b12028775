"""A deep attack on the bounds: a million random models, each judged beyond double precision.

`python -m tests.attack --models 1000000` goes on where it stopped.
"""
