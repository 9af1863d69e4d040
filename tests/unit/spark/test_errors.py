"""The texts are Spark's own, as PySpark 4.3 raised them, shortened where `…` stands."""

# ruff: noqa: E501  they are as long as they are

import runpy
from pathlib import Path

import pytest

from everlog.model.errors import ConfigError
from everlog.spark.errors import explain, explain_text

STREAM_FAILED = """[STREAM_FAILED] Query [id = b208d57e, runId = c5be341b] terminated with exception: \
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform initialOffset: \
everlog.model.errors.Refused: there is no topic 'nope' at 127.0.0.1:9092
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = b208d57e, runId = c5be341b]
Current Committed Offsets: {}

Logical Plan:
WriteToMicroBatchDataSource noop-table
"""

JAVA_STACK = """An error occurred while calling o157.load.
: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: everlog. Make \
sure the provider name is correct and the package is properly registered and compatible with your Spark version. \
SQLSTATE: 42K02
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.dataSourceNotFoundError(QueryExecutionErrors.scala:770)
"""

NO_JAR_FOR_A_CHECKPOINT = """An error occurred while calling o76.start.
: org.apache.spark.SparkException: [CANNOT_LOAD_CHECKPOINT_FILE_MANAGER.UNCATEGORIZED] Error loading streaming \
checkpoint file manager for path=s3a://lake/cp.  SQLSTATE: 58030
\tat org.apache.spark.sql.execution.streaming.StreamingErrors$.cannotLoadCheckpointFileManager(StreamingErrors.scala:74)
Caused by: java.lang.RuntimeException: java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3A not found
\tat org.apache.hadoop.conf.Configuration.getClass(Configuration.java:2724)
"""

NO_SUCH_SCHEME = """An error occurred while calling o98.start.
: org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "s3"
\tat org.apache.hadoop.fs.FileSystem.getFileSystemClass(FileSystem.java:3586)
"""

NO_MODE = """[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "everlog_table" cannot be written in the \
"ErrorIfExists" mode. Please use either the "Append" or "Overwrite" mode instead. SQLSTATE: 0A000
"""

NO_UPDATE_MODE = """[STREAM_FAILED] Query [id = c41995a2, runId = d6a8a84b] terminated with exception: requirement \
failed: everlog does not support Update mode. SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = c41995a2, runId = d6a8a84b]
Current Committed Offsets: {}
"""

NO_NAMENODE = """An error occurred while calling o138.start.
: java.net.ConnectException: Call From vm/127.0.0.1 to localhost:9 failed on connection exception: java.net.\
ConnectException: Connection refused
\tat java.base/jdk.internal.reflect.NativeConstructorAccessorImpl.newInstance0(Native Method)
"""

UDF_FAILED = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/pyspark/worker.py", line 1900, in main
    process()
  File "/home/me/shop/transformations/orders.py", line 31, in <lambda>
ZeroDivisionError: integer division or modulo by zero

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:601)
"""

TRACE_OF_OURS = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task
Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/everlog/spark/source/reading.py", line 31, in read
    raise Refused(…)
everlog.model.errors.Refused: offset 5 of orders-0 is gone: the log begins at 90

During handling of the above exception, another exception occurred:

RuntimeError: worker is going down

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:601)
"""


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed to generate Python data source read partitions: everlog.client.core."
            "errors.TimedOut: no broker answered at 127.0.0.1:1 within 30 s: broker 127.0.0.1:1 cannot be reached: "
            "refused the connection: is it running there?\n SQLSTATE: 38000",
            "no broker answered at 127.0.0.1:1 within 30 s: broker 127.0.0.1:1 cannot be reached: refused the "
            "connection: is it running there?",
        ),
        (STREAM_FAILED, "there is no topic 'nope' at 127.0.0.1:9092"),
        (TRACE_OF_OURS, "offset 5 of orders-0 is gone: the log begins at 90"),
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: everlog.model.errors."
            "ConfigError: valueFormat=json needs the option valueSchema, such as 'id BIGINT, name STRING'\n "
            "SQLSTATE: 38000",
            "valueFormat=json needs the option valueSchema, such as 'id BIGINT, name STRING'",
        ),
        (
            '\n[UNSUPPORTED_DATATYPE] Unsupported data type "BIGIN". SQLSTATE: 0A000 (line 1, pos 2)\n\n== SQL ==\n'
            "a bigin\n--^^^\n",
            'Unsupported data type "BIGIN". (UNSUPPORTED_DATATYPE)',
        ),
        (
            "[KAFKA_DATA_SOURCE_NOT_ENABLED] Failed to find data source: kafka. Please deploy the application as per "
            "the deployment section of Structured Streaming + Kafka Integration Guide. SQLSTATE: 42K02",
            'the Kafka connector of Spark is not installed: write .format("everlog"), which takes the same options',
        ),
        (
            JAVA_STACK,
            "Spark does not find the format everlog: everlog is not installed in its Python; set PYSPARK_PYTHON",
        ),
        (
            UDF_FAILED,
            "ZeroDivisionError: integer division or modulo by zero (/home/me/shop/transformations/orders.py, line 31)",
        ),
        (
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has "
            "different version: 3.12 than that in driver: 3.11, PySpark cannot run with different minor versions.",
            "the workers run Python 3.12 and the driver runs Python 3.11: set PYSPARK_PYTHON to a Python 3.11 that "
            "is on every worker",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/venv/bin/python": error=2, No such file or directory',
            "the workers have no Python at /opt/venv/bin/python: set PYSPARK_PYTHON to a path that exists on every "
            "worker, with everlog[spark] installed",
        ),
        (
            "…worker.py\", line 1\nModuleNotFoundError: No module named 'everlog'",
            "the Python of the workers has no everlog: install everlog[spark] on every worker, or set "
            "PYSPARK_PYTHON to a Python that has it",
        ),
        (
            "org.apache.spark.SparkException: Could not parse Master URL: 'sparc://x'",
            "--master sparc://x cannot be read: expected local[*], local[4], spark://HOST:PORT, yarn or k8s://…",
        ),
        (
            NO_JAR_FOR_A_CHECKPOINT,
            "Spark has no file system for s3a://, as PyPI's PySpark comes without it: set spark.jars.packages to "
            "org.apache.hadoop:hadoop-aws in the version of Spark's own Hadoop, which the name of "
            "pyspark/jars/hadoop-client-api-*.jar tells, or use hdfs:// or a directory that all machines share",
        ),
        (
            "java.lang.RuntimeException: java.lang.ClassNotFoundException: Class "
            "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem not found\n\tat org.apache.hadoop.conf.…",
            "Spark has no file system for azurebfs, as PyPI's PySpark comes without it: set spark.jars.packages to "
            "its package in the version of Spark's own Hadoop, or use hdfs:// or a directory that all machines share",
        ),
        (
            NO_SUCH_SCHEME,
            "Spark calls the file system of S3 s3a://, and PyPI's PySpark comes without it: set spark.jars.packages "
            "to org.apache.hadoop:hadoop-aws in the version of Spark's own Hadoop, or use hdfs:// or a directory "
            "that all machines share",
        ),
        (
            NO_SUCH_SCHEME.replace("s3", "dbfs"),
            "Spark has no file system for dbfs://: set spark.jars.packages to the package that brings it, or use "
            "hdfs:// or a directory that all machines share",
        ),
        (
            NO_MODE,
            'the format everlog_table is only ever appended to: write .mode("append") before .save(), as Spark '
            "means something else if no mode is said",
        ),
        (
            NO_UPDATE_MODE,
            "output mode update: Spark has none for a format in Python; write its batches with .foreachBatch and "
            '.format("everlog"), each once by the options writeId and batchId',
        ),
        (
            NO_UPDATE_MODE.replace("everlog does", "everlog_table does"),
            "output mode update: Spark has none for a format in Python; write its batches with .foreachBatch and "
            '.format("everlog_table"), each once by the options writer and batchId',
        ),
        (
            NO_NAMENODE,
            "ConnectException: Call From vm/127.0.0.1 to localhost:9 failed on connection exception: "
            "java.net.ConnectException: Connection refused",
        ),
    ],
)
def test_a_failure_is_explained_in_one_line(text: str, meaning: str) -> None:
    assert explain(RuntimeError(text)) == meaning


def test_an_error_of_ours_is_found_among_the_causes() -> None:
    error = RuntimeError("o157.load failed")
    error.__cause__ = ConfigError("option topic='': expected a name")

    assert explain(error) == "option topic='': expected a name"


def test_what_is_not_known_is_left_to_the_caller() -> None:
    assert explain(RuntimeError("something else")) is None
    assert explain_text("java.lang.IllegalStateException: 3") is None


def test_a_mistake_in_a_file_is_told_with_its_place(tmp_path: Path) -> None:
    for text, says in (
        (
            "x = 1\nimport nothing_such\n",
            "ModuleNotFoundError: No module named 'nothing_such' ({path}, line 2)",
        ),
        ("def f(:\n", "SyntaxError: invalid syntax ({path}, line 1)"),
    ):
        path = tmp_path / "orders.py"
        path.write_text(text)
        with pytest.raises((ImportError, SyntaxError)) as caught:
            runpy.run_path(str(path))
        assert explain(caught.value) == says.format(path=path)


def test_a_path_or_a_module_of_ours_is_not_taken_for_an_error() -> None:
    assert explain_text("while loading everlog.spark.source: 3") is None
    assert explain_text("/opt/everlog.d/Errors.Log: full") is None
