"""Kills of driver, executors, tasks, committer and broker while streaming queries write exactly once.

`python -m tests.spark.kills --kills 200` kills as often, at each step and at random moments, under queries
into a topic and into tables, says what it has seen, and writes down each verdict; begun again it goes on.
"""
