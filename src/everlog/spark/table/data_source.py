"""What Spark knows as the format `everlog_table`."""

from pyspark.sql.datasource import DataSource


class TableDataSource(DataSource):
    """A lake table that batches are appended or merged into, each once."""

    @classmethod
    def name(cls) -> str:
        """The name for `.format(...)`."""
        return "everlog_table"
