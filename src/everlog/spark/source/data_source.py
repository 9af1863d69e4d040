"""What Spark knows as the format `everlog`."""

from pyspark.sql.datasource import DataSource


class EverlogDataSource(DataSource):
    """Topics of Everlog or Apache Kafka, read and written, batch and streaming."""

    @classmethod
    def name(cls) -> str:
        """The name for `.format(...)`."""
        return "everlog"
