"""Spark queries into tables, in which somebody dies: each input must be in the table once (D2, D6).

`tests.spark.kills` kills them on Spark; `python -m tests.spark.kills_table` kills tasks, committers and
drivers of the same sink in processes without a JVM, on tables of all formats and modes.
"""
