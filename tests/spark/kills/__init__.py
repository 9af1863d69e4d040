"""Kills of driver, workers, committer and broker while a streaming query writes to a topic exactly once.

`python -m tests.spark.kills --kills 200` runs as long as that takes and says what it has seen.
"""
