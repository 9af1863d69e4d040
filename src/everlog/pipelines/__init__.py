"""Declared pipelines on Spark: projects, templates, a catalog that lasts, running and watching (D3-D6).

It starts Spark Declarative Pipelines and Structured Streaming; the command line is its only caller. What
reads and writes topics is in `everlog.spark`.
"""
