"""Spark's types as Arrow's, the one way in which Spark takes Arrow batches."""

from importlib import import_module
from typing import Any


def arrow_schema(schema: Any) -> Any:
    """The pyarrow.Schema that batches of a StructType must have."""
    # Neither side has types that say anything.
    types: Any = import_module("pyspark.sql.pandas.types")
    return types.to_arrow_schema(schema, timezone="UTC")
