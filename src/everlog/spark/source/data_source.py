"""What Spark knows as the format `everlog`."""

from typing import Any

from pyspark.sql.datasource import DataSource

from everlog.spark.failures import told_in_one_line


class EverlogDataSource(DataSource):
    """Topics of Everlog or Apache Kafka, read and written, batch and streaming."""

    @classmethod
    def name(cls) -> str:
        """The name for `.format(...)`."""
        return "everlog"

    # Each side is imported when it is asked for: most processes that Spark starts need one of them only.

    def schema(self) -> str:
        """The columns of a read, as DDL."""
        from everlog.spark.source.options import read_options
        from everlog.spark.source.record_schema import read_schema
        from everlog.spark.worker_memory import settle_memory

        settle_memory()
        with told_in_one_line():
            # Whether it will be a stream is not known here; what is wrong in both cases is told early.
            return read_schema(read_options(self.options, streaming=None))

    def reader(self, schema: Any) -> Any:
        """The reader of a batch query."""
        from everlog.spark.source.batch_reader import EverlogBatchReader, FilteredBatchReader
        from everlog.spark.source.options import read_options
        from everlog.spark.source.pushdown import spark_pushes_filters

        with told_in_one_line():
            options = read_options(self.options, streaming=False)
            kind = (
                FilteredBatchReader if options.push_filters and spark_pushes_filters() else EverlogBatchReader
            )
            return kind(options, schema)

    def streamReader(self, schema: Any) -> Any:
        """The reader of a streaming query."""
        from everlog.spark.source.options import read_options

        with told_in_one_line():
            options = read_options(self.options, streaming=True)
            if options.low_latency:
                # It stands on a class of Spark that is not public: whoever does not ask for it needs none.
                from everlog.spark.source.prompt_reader import PromptStreamReader

                return PromptStreamReader(options, schema)
            from everlog.spark.source.stream_reader import EverlogStreamReader

            return EverlogStreamReader(options, schema)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """The writer of a batch query."""
        from everlog.spark.sink.writers import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """The writer of a streaming query."""
        from everlog.spark.sink.writers import stream_writer

        return stream_writer(self.options, schema, overwrite)
