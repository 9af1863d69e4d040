"""Declared pipelines on Spark: projects, templates, a catalog that lasts, running and watching (D3-D6).

It starts Spark Declarative Pipelines and Structured Streaming; the command line is its only caller, but for
`stream`, which files of projects use. Spark runs in a child process, `runner`; whatever decides is
outside it and does not import pyspark. What reads and writes topics is in `everlog.spark`.
"""

from everlog.pipelines.streams import stream

__all__ = ["stream"]
