"""What a failure of Spark means, in one line: the cause that a stack of Java hides, and what to do."""

import re
import traceback
from typing import NamedTuple

from everlog.model.errors import EverlogError

_LONGEST = 600


class _Known(NamedTuple):
    """A failure that users meet, told by words in its text."""

    sign: re.Pattern[str]
    meaning: str
    """With `{1}`, `{2}` … for the groups of the sign."""


def _known(sign: str, meaning: str) -> _Known:
    return _Known(re.compile(sign, re.DOTALL), meaning)


_KNOWN = (
    _known(
        r"Python in worker has different version: \(?'?([\d.]+)\)?.*?driver: \(?'?([\d.]+)",
        "the workers run Python {1} and the driver runs Python {2}: set PYSPARK_PYTHON to a Python {2} "
        "that is on every worker",
    ),
    _known(
        r"[Cc]annot run program \"([^\"]*python[^\"]*)\"",
        "the workers have no Python at {1}: set PYSPARK_PYTHON to a path that exists on every worker, with "
        "everlog[spark] installed",
    ),
    _known(
        r"ModuleNotFoundError: No module named '(everlog|pyspark_everlog|pyarrow)[\w.]*'",
        "the Python of the workers has no {1}: install everlog[spark] on every worker, or set PYSPARK_PYTHON "
        "to a Python that has it",
    ),
    _known(
        r"UnsupportedClassVersionError|has been compiled by a more recent version of the Java Runtime",
        "Java is too old: Spark needs 17 or newer; install one with `pip install 'everlog[java]'`, or set "
        "JAVA_HOME",
    ),
    _known(
        r"JAVA_GATEWAY_EXITED|Java gateway process exited before sending its port number",
        "Java did not start: what it said is above this line or in the log; `java -version` must say 17 or "
        "newer",
    ),
    _known(
        r"(?:All masters are unresponsive|Failed to connect to master ([^\s,]+))",
        "the Spark cluster does not answer: check the address after --master, and that its master is up",
    ),
    _known(
        r"Could not parse Master URL: '?([^'\s]+)'?",
        "--master {1} cannot be read: expected local[*], local[4], spark://HOST:PORT, yarn or k8s://…",
    ),
    _known(
        r"Another instance of Derby may have already booted the database ([^\s]+)",
        "the project's catalog {1} is open in another process: stop the other run of this pipeline",
    ),
    _known(
        r"Python worker failed to connect back",
        "a Python that Spark started did not report within 10 s: the machine is overloaded, or "
        "PYSPARK_PYTHON is no Python with everlog[spark]",
    ),
    _known(
        r"KAFKA_DATA_SOURCE_NOT_ENABLED",
        'the Kafka connector of Spark is not installed: write .format("everlog"), which takes the same '
        "options",
    ),
    _known(
        r"\[DATA_SOURCE_NOT_FOUND\][^\n]*\b(everlog(?:_table)?)\b",
        "Spark does not find the format {1}: everlog is not installed in its Python; set PYSPARK_PYTHON",
    ),
    _known(
        r"data source \"(everlog(?:_table)?)\" cannot be written in the \"(?:ErrorIfExists|Ignore)\" mode",
        'the format {1} is only ever appended to: write .mode("append") before .save(), as Spark means '
        "something else if no mode is said",
    ),
    _known(
        r"requirement failed: everlog does not support Update mode",
        "output mode update: Spark has none for a format in Python; write its batches with .foreachBatch and "
        '.format("everlog"), each once by the options writeId and batchId',
    ),
    _known(
        r"requirement failed: everlog_table does not support Update mode",
        "output mode update: Spark has none for a format in Python; write its batches with .foreachBatch and "
        '.format("everlog_table"), each once by the options writer and batchId',
    ),
    _known(
        r"LOCATION_ALREADY_EXISTS[^\n]*?`([^`]+)`\.`?[^\n]*?location '([^']+)'",
        "table {1} is not in the catalog but its files are at {2}: run with the catalog that made them, or "
        "remove them",
    ),
    _known(
        r"Class org\.apache\.hadoop\.fs\.s3a\.\w+ not found",
        "Spark has no file system for s3a://, as PyPI's PySpark comes without it: set spark.jars.packages to "
        "org.apache.hadoop:hadoop-aws in the version of Spark's own Hadoop, which the name of "
        "pyspark/jars/hadoop-client-api-*.jar tells, or use hdfs:// or a directory that all machines share",
    ),
    _known(
        r"Class org\.apache\.hadoop\.fs\.(\w+)\.\w+ not found",
        "Spark has no file system for {1}, as PyPI's PySpark comes without it: set spark.jars.packages to "
        "its package in the version of Spark's own Hadoop, or use hdfs:// or a directory that all machines "
        "share",
    ),
    _known(
        r"No FileSystem for scheme \"s3n?\"",
        "Spark calls the file system of S3 s3a://, and PyPI's PySpark comes without it: set "
        "spark.jars.packages to org.apache.hadoop:hadoop-aws in the version of Spark's own Hadoop, or use "
        "hdfs:// or a directory that all machines share",
    ),
    _known(
        r"No FileSystem for scheme \"([^\"]+)\"",
        "Spark has no file system for {1}://: set spark.jars.packages to the package that brings it, or use "
        "hdfs:// or a directory that all machines share",
    ),
    _known(
        r"java\.lang\.OutOfMemoryError",
        "Spark ran out of memory: give it more with -c spark.driver.memory=4g, and spark.executor.memory on "
        "a cluster",
    ),
)

# `everlog.model.errors.Refused: no topic 'x'`, alone, at the end of a Python trace or in a sentence of Spark.
_OWN = re.compile(r"(?<![\w./])everlog(?:\.\w+)+\.[A-Z]\w*: (.+?)(?=\s*(?:SQLSTATE: |$))", re.MULTILINE)
_PYTHON = re.compile(r"^(?:[\w.]+\.)?([A-Z]\w*(?:Error|Exception|Warning|Interrupt)): (.+)$", re.MULTILINE)
_CONDITION = re.compile(
    r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]\s*(.+?)(?:\s*SQLSTATE:|\n\n|\n\tat |\Z)", re.DOTALL
)
_JAVA = re.compile(r"^An error occurred while calling [^\n]*\n: (?:[\w.]+\.)?(\w+): ([^\n]+)")
_PLACE = re.compile(r'^\s*File "([^"<]+)", line (\d+)', re.MULTILINE)
# They wrap the cause and say nothing of it.
_WRAPPERS = frozenset(
    {
        "PYTHON_DATA_SOURCE_ERROR",
        "STREAM_FAILED",
        "FAILED_EXECUTE_UDF",
        "USER_RAISED_EXCEPTION",
        "INTERNAL_ERROR",
    }
)


def explain(error: BaseException) -> str | None:
    """One line that says what went wrong and, where we know it, what to do; None if we cannot tell.

    An error of ours is found wherever it is: raised here, as a cause, or in the text of an exception that
    went through the JVM. Known failures of Spark have a line of ours. Of others it is Spark's own sentence,
    and of a mistake in a Python file that mistake and its place.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, EverlogError):
            return _one_line(str(seen))
        seen = seen.__cause__ or seen.__context__
    if (known := explain_text(str(error))) is not None:
        return known
    stack = "".join(traceback.format_exception(error))
    return _in_python(stack) if _places(stack) else None


def explain_text(text: str) -> str | None:
    """The same for the text of a failure, such as an event of a pipeline or lines of a log."""
    if own := _OWN.findall(text):
        # The innermost exception of a Python trace comes first: later ones were raised while handling it.
        return _one_line(str(own[0]))
    for known in _KNOWN:
        if found := known.sign.search(text):
            return _one_line(known.meaning.format(text, *(part or "" for part in found.groups())))
    if "Traceback (most recent call last)" in text and (python := _in_python(text)) is not None:
        return python
    for condition, sentence in _CONDITION.findall(text):
        if condition.partition(".")[0] not in _WRAPPERS:
            return _one_line(f"{sentence} ({condition})")
    if java := _JAVA.search(text):
        return _one_line(": ".join(java.groups()))
    return None


def _in_python(text: str) -> str | None:
    raised = [
        (kind, message)
        for kind, message in _PYTHON.findall(text)
        if not (kind.startswith(("Py4J", "Spark")) or kind.endswith("PythonException"))
    ]
    if not raised:
        return None
    kind, message = raised[-1]
    places = _places(text)
    where = f" ({places[-1][0]}, line {places[-1][1]})" if places else ""
    return _one_line(f"{kind}: {message}{where}")


def _places(text: str) -> list[tuple[str, str]]:
    """Files and lines of a Python trace that are neither Python's own nor those of packages."""
    return [
        place
        for place in _PLACE.findall(text)
        if "/site-packages/" not in place[0] and "/lib/python" not in place[0]
    ]


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
