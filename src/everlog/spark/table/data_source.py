"""What Spark knows as the format `everlog_table`."""

from typing import Any

from pyspark.sql.datasource import DataSource


class TableDataSource(DataSource):
    """A lake table that batches are appended or merged into, each once; and that can be read."""

    @classmethod
    def name(cls) -> str:
        """The name for `.format(...)`."""
        return "everlog_table"

    # Reading and writing are imported when they are asked for: most processes that Spark starts need one.

    def schema(self) -> Any:
        """The columns of a table that is there."""
        from everlog.spark.table.reader import table_columns

        return table_columns(self.options)

    def reader(self, schema: Any) -> Any:
        """The reader of a batch query."""
        from everlog.spark.table.reader import table_reader

        return table_reader(self.options, schema)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """The writer of a batch query."""
        from everlog.spark.table.writers import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """The writer of a streaming query."""
        from everlog.spark.table.writers import stream_writer

        return stream_writer(self.options, schema, overwrite)
