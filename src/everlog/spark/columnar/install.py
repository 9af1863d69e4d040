"""Have a session of Spark read our format as columns.

Spark 4.3 has no way for a Python source to hand over columns: each Arrow batch is made into rows one by one,
each row is copied once more, and metrics are kept row by row: two fifths of what a read costs. The classes of
`ColumnarRule.java` plan such a read as Spark plans one of Parquet. They are compiled on this machine against
the Spark that runs, by the compiler that is a part of Spark; the jar is kept for the next session.
"""

import importlib
import importlib.resources
import logging
import os
import stat
import tempfile
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from everlog.spark.cache_folder import cache_folder

_log = logging.getLogger(__name__)

SWITCH = "spark.everlog.columnarReads"
"""The setting of a session, `true` or `false`, for reads planned from then on; `true` if it is not set."""
ISOLATION = "spark.sql.artifact.isolation.enabled"
"""Spark's setting for sessions whose tasks see no jars but the session's own; pipelines set it."""
SPARK = ("4.3.",)
"""Versions that this is tested on. It needs classes of Spark that are not public: others are left alone."""
_RULE = "everlog.spark.columnar.ColumnarRule"


def read_columns(spark: Any, environment: Mapping[str, str] = os.environ) -> bool:
    """Have this session read our format as columns from now on; False, and nothing has changed, if it cannot.

    `spark` is a classic session, that of this process. It is for Spark on this machine, where driver and
    executors are one.
    """
    # Typed nowhere, and a part of pyspark, which need not be there.
    protocol: Any = importlib.import_module("py4j.protocol")
    if not str(spark.version).startswith(SPARK):
        return False
    try:
        if spark.conf.get(ISOLATION, "false") == "true":
            # The rule itself looks too: a session may be asked for this later.
            return False
        _install(spark, environment)
    # A class that is not there is a package to py4j, and calling it a TypeError.
    except (protocol.Py4JError, OSError, TypeError) as error:
        _log.info("reads stay row by row: %s", error)
        return False
    return True


def _install(spark: Any, environment: Mapping[str, str]) -> None:
    jvm, methods = spark._jvm, spark._jsparkSession.experimental()
    rules = methods.extraOptimizations()
    if any(rules.apply(at).getClass().getName() == _RULE for at in range(rules.size())):
        return
    loader = spark._jsparkSession.getClass().getClassLoader()
    jar = _jar(spark, loader, environment)
    urls = spark.sparkContext._gateway.new_array(jvm.java.net.URL, 1)
    place = jvm.java.io.File(str(jar)).toURI()
    urls[0] = place.toURL()
    rule = jvm.java.net.URLClassLoader(urls, loader).loadClass(_RULE)
    instance = rule.getDeclaredConstructor(_none(spark, jvm.java.lang.Class)).newInstance(
        _none(spark, jvm.java.lang.Object)
    )
    # Tasks look for classes in the jars of the session, on this machine too. Spark takes what it is given for
    # a URI: of a path it would cut off what follows `#`, log that there is no such file, and go on.
    spark.sparkContext._jsc.addJar(str(place.toString()))
    getattr(methods, "extraOptimizations_$eq")(rules.appended(instance))


def _none(spark: Any, kind: Any) -> Any:
    return spark.sparkContext._gateway.new_array(kind, 0)


def _jar(spark: Any, loader: Any, environment: Mapping[str, str]) -> Path:
    """The jar for this Spark: that of an earlier session, or one that is compiled now."""
    source = (
        importlib.resources.files("everlog.spark.columnar").joinpath("ColumnarRule.java").read_text("utf-8")
    )
    version = str(spark.version)
    tag = sha256(f"{version}\n{source}".encode()).hexdigest()[:12]
    name = f"everlog-columnar-{version}-{tag}.jar"
    # Spark's own folder for this session, which it removes with the session.
    own = Path(spark.sparkContext._temp_dir) / name
    try:
        kept = cache_folder(environment) / name
    except OSError as error:
        _log.info("compiled for this session alone: %s", error)
        return _written(own, _compiled(spark._jvm, loader, source))
    if _is_whole(kept):
        return kept
    classes = _compiled(spark._jvm, loader, source)
    try:
        return _written(kept, classes)
    except OSError as error:
        _log.info("compiled for this session alone: %s", error)
    return _written(own, classes)


def _compiled(jvm: Any, loader: Any, source: str) -> dict[str, bytes]:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(source)
    return {str(name): bytes(code) for name, code in compiler.getBytecodes().items()}


def _is_whole(jar: Path) -> bool:
    """Whether it is a jar with our rule that this user has written, and nobody else can have."""
    try:
        found = jar.lstat()
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return False
        with zipfile.ZipFile(jar) as archive:
            return archive.testzip() is None and _entry(_RULE) in archive.namelist()
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile):  # All that zipfile says of what is no jar.
        return False


def _entry(name: str) -> str:
    return name.replace(".", "/") + ".class"


def _written(jar: Path, classes: Mapping[str, bytes]) -> Path:
    jar.parent.mkdir(parents=True, exist_ok=True)
    # Replaced in one step: another process may be loading it just now.
    handle, fresh = tempfile.mkstemp(dir=jar.parent, prefix=f"{jar.name}.")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for name, code in classes.items():
                archive.writestr(_entry(name), code)
        Path(fresh).replace(jar)
    except BaseException:
        Path(fresh).unlink()
        raise
    return jar
