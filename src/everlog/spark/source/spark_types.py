"""Spark's types as Arrow's, in the one layout that Spark takes, and as DDL."""

from importlib import import_module
from typing import Any

from everlog.model.errors import ConfigError


def arrow_schema(schema: Any) -> Any:
    """The pyarrow.Schema that batches of a StructType must have; ConfigError for a type that none has."""
    # Neither side has types that say anything.
    types: Any = import_module("pyspark.sql.pandas.types")
    errors: Any = import_module("pyspark.errors")
    try:
        return types.to_arrow_schema(schema, timezone="UTC")
    except errors.PySparkTypeError as error:
        told: dict[str, str] = error.getMessageParameters() or {}
        kind = told.get("data_type", error)
        raise ConfigError(
            f"schema: {kind} is no type that a column can have here, expected one such as STRING or BIGINT"
        ) from None


def ddl_of(schema: Any) -> str:
    """The DDL of the columns of a pyarrow.Schema."""
    types: Any = import_module("pyspark.sql.pandas.types")
    return ddl_of_fields(types.from_arrow_schema(schema).fields)


def ddl_of_fields(fields: Any) -> str:
    """The DDL of the fields of a StructType."""
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in fields)
