"""Mutated files of every format that is read: each is answered, or refused by one sentence.

`python -m tests.fuzz --seconds 600 --seed 1 --jobs 2`; a short run is a campaign of the suite.
"""
