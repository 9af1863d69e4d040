"""Batch reads of our format as columns, as Spark reads Parquet: classes for Spark, and who puts them there.

`ColumnarRule.java` is what runs in Spark's virtual machine; `install.py` has Spark compile it and tells a
session of it. Only `session.py` calls that. A session without it reads the same rows, by the way that Spark
has for all Python sources.
"""
