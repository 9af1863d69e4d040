"""A Python for Spark's workers on this machine that starts in a third of the time.

Spark puts `pyspark.zip` before all else that a worker imports from. The archive has no compiled files, so
each Python that Spark starts compiles pyspark anew: 1.1 s of CPU instead of 0.3 s, and on a busy machine more
than the ten seconds that Spark gives it. The same pyspark is installed beside it; this takes the archive out
of its way.
"""

import importlib.util
import os
import re
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from everlog.spark.cache_folder import cache_folder

NAME = "python-for-spark"
NAMES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
"""Tasks are started by the first, what Spark asks of sources and sinks on the driver by the second."""
_CUT_BY_A_SHELL = re.compile(r"""[\s"'`$&|;<>()\\]""")


def use_quick_python(master: str, environment: MutableMapping[str, str] = os.environ) -> None:
    """Have Spark start workers by a script, if they run here and on this Python; else undo that.

    Nothing changes for who has set PYSPARK_PYTHON, or has another Spark than the one installed with pip.
    """
    try:
        # One for each Python: several may be at work for one user.
        script = cache_folder(environment) / _tag(sys.executable) / NAME
    except OSError:
        script = None  # No home to write to: it works without, if slower.
    if script is not None and _CUT_BY_A_SHELL.search(str(script)):
        # Spark has a shell look whether it is there, unquoted, and knows no format in Python if it is not.
        script = None
    ours = (sys.executable, str(script))
    names = [name for name in NAMES if environment.get(name, sys.executable) in ours]
    quick = master.startswith("local") and _is_spark_of_pip(environment)
    if quick and names and script is not None:
        try:
            _write(script, script_for(sys.executable))
        except OSError:
            script = None
    for name in names:
        environment[name] = str(script) if quick and script is not None else sys.executable


def script_for(python: str) -> str:
    """A script that runs this Python without Spark's archive of pyspark in its way."""
    return (
        "#!/bin/sh\n"
        "set -f\n"
        "kept=\n"
        "IFS=:\n"
        "for entry in $PYTHONPATH; do\n"
        '  case "$entry" in\n'
        "    */python/lib/pyspark.zip) ;;\n"
        '    *) kept="$kept${kept:+:}$entry" ;;\n'
        "  esac\n"
        "done\n"
        "unset IFS\n"
        'export PYTHONPATH="$kept"\n'
        f"exec '{python}' \"$@\"\n"
    )


def _is_spark_of_pip(environment: Mapping[str, str]) -> bool:
    home = environment.get("SPARK_HOME")
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return False
    return home is None or Path(home).resolve() == Path(spec.origin).resolve().parent


def _tag(python: str) -> str:
    from hashlib import sha256

    return f"python-{sha256(python.encode()).hexdigest()[:12]}"


def _write(script: Path, text: str) -> None:
    if script.is_file() and script.read_text() == text:
        return
    script.parent.mkdir(parents=True, exist_ok=True)
    # Replaced in one step: another process may be starting it just now.
    fresh = script.with_name(f"{NAME}.{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(0o755)
    fresh.replace(script)
