"""What Spark knows as the format `everlog`."""

from typing import Any

from pyspark.sql.datasource import DataSource


class EverlogDataSource(DataSource):
    """Topics of Everlog or Apache Kafka, read and written, batch and streaming."""

    @classmethod
    def name(cls) -> str:
        """The name for `.format(...)`."""
        return "everlog"

    # The sink is imported when it is asked for: most processes that Spark starts need one side only.

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """The writer of a batch query."""
        from everlog.spark.sink.writers import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """The writer of a streaming query."""
        from everlog.spark.sink.writers import stream_writer

        return stream_writer(self.options, schema, overwrite)
