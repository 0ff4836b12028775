"""The board: the models that people really fit, at any gamma, against what else they could use.

`python -m benchmarks board` measures, prints whether each goal holds, and writes the results, the
table and the picture. `sets` finds data, `cases` fits models once and keeps them, `players` says
who takes part, `measure` verifies and times one case, `goals` judges, `page` writes.
"""
