"""Compile, predict, save, load, fork, spawn, threads and signals, over and over: nothing may grow.

`python -m tests.soak --seconds 3600`; a short run is a campaign of the suite.
"""
