"""Spark jobs into tables, killed again and again: each input must be in the table once (D2, D6).

`python -m tests.spark.kills_table --kills 40` kills workers in the midst of writing, committers at each
step of a table's commit, and whole drivers, in turn on tables of all three formats.
"""
