"""Suites of many runs: what is to be run, where, what came of it.

jobs.py     one piece of work, named by its content; what may become of it
store.py    results on disk, a line each, that survive whatever kills the writer
pool.py     worker processes on this machine            ray_pool.py  the same on a Ray cluster
schedule.py jobs in the order of their needs, on either pool, into the store
plan.py     a suite's file to jobs                      search.py    settings chosen by their scores
work.py     what a worker does: metric, neighbours, runs
tables.py   results to tables, beside the paper's (paper.py)
"""
