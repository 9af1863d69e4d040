"""A lake table as a DataFrame: each task reads some of its files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from everlog.spark.failures import told_in_one_line
from everlog.spark.table.opening import table_to_read
from everlog.spark.table.options import read_options
from everlog.tables.spec import TableSpec
from everlog.tables.staging import DataFile
from everlog.tables.table import open_table

PARTITION_BYTES = 64 << 20
"""Small files are read together up to so much."""


@dataclass
class Files(InputPartition):
    """What one task reads."""

    files: tuple[DataFile, ...]


class TableReader(DataSourceReader):
    """Reads a table as it was when the query was planned."""

    def __init__(self, spec: TableSpec, files: Sequence[DataFile], columns: Sequence[str]) -> None:
        self.spec = spec
        self.files = list(files)
        self.columns = list(columns)

    def partitions(self) -> Sequence[InputPartition]:
        """Files, small ones together."""
        return [Files(lot) for lot in lots(self.files, PARTITION_BYTES)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task's files as Arrow batches."""
        assert isinstance(partition, Files), partition
        with told_in_one_line():
            table = open_table(self.spec, create=False)
            for file in partition.files:
                yield from table.read_files([file], self.columns).to_batches()


def lots(files: Sequence[DataFile], size_bytes: int) -> list[tuple[DataFile, ...]]:
    """Files in order, in lots of about that size."""
    made: list[tuple[DataFile, ...]] = []
    lot: list[DataFile] = []
    held = 0
    for file in files:
        if lot and held + file.size_bytes > size_bytes:
            made.append(tuple(lot))
            lot, held = [], 0
        lot.append(file)
        held += file.size_bytes
    return [*made, tuple(lot)] if lot else made


def table_columns(options: Any) -> Any:
    """The columns of a table, as Spark knows columns."""
    with told_in_one_line():
        types: Any = import_module("pyspark.sql.pandas.types")  # its arguments have no types
        return types.from_arrow_schema(table_to_read(read_options(options)).schema)


def table_reader(options: Any, schema: Any) -> TableReader:
    """The reader of a batch query."""
    with told_in_one_line():
        table = table_to_read(read_options(options))
        return TableReader(table.spec, table.data_files(), schema.names)
