"""Whether this Spark can get at a storage: which file systems it has depends on its jars."""

from typing import Any


def require_file_system(spark: Any, location: str) -> None:
    """Raise what Hadoop says if no jar of this session has the file system of a URI; it is not asked itself.

    What asks for it later may not tell: a catalog on such a storage says that it cannot be instantiated.
    """
    scheme, is_uri, _ = location.partition("://")
    if is_uri:
        context = spark.sparkContext
        file_system = context._jvm.org.apache.hadoop.fs.FileSystem
        file_system.getFileSystemClass(scheme, context._jsc.hadoopConfiguration())
