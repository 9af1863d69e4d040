"""Failure injection: a cluster of real processes under load, things broken on purpose, a verdict.

Scenarios are lists of steps (`steps`), carried out on brokers (`target`) by whatever means the machine has
(`means`, `faults`) while clients write and read (`load`, `members`) and somebody watches (`watch`). What all
of them noted is measured (`measures`) and judged (`verdict`) by the checkers that judge simulated runs too,
and drawn (`page`, `chart`). The command line calls it; nothing below imports this room.
"""
