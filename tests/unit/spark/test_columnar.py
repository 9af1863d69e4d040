"""Who may read as columns, and what happens where it cannot be."""

import importlib
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from urllib.parse import quote, unquote, urlsplit

import pytest

from everlog.spark.columnar.install import read_columns
from everlog.spark.session import in_this_process, session

RULE = "everlog.spark.columnar.ColumnarRule"


class _Refuses:
    """A session whose virtual machine refuses whatever it is asked."""

    version = "4.3.0"
    conf: ClassVar[dict[str, str]] = {}

    @property
    def _jvm(self) -> Any:
        # Typed nowhere.
        protocol: Any = importlib.import_module("py4j.protocol")
        raise protocol.Py4JError("no such class")


class _Rules(list[Any]):
    """A sequence of Scala."""

    def apply(self, at: int) -> Any:
        return self[at]

    def size(self) -> int:
        return len(self)

    def appended(self, rule: Any) -> "_Rules":
        return _Rules([*self, rule])


class _Java:
    """Answers as this object of Java would; `answers` has a value, or what to call, for each name."""

    def __init__(self, **answers: Any) -> None:
        self.__dict__.update(answers)


class _Session:
    """A session of Spark as far as the rule's installing asks it; it knows what was compiled and added."""

    version = "4.3.0"

    def __init__(self, temp: Path, conf: dict[str, str] | None = None, master: str = "local[2]") -> None:
        self.compiled = 0
        self.jars: list[Path] = []
        self.rules = _Rules()
        self.conf = conf or {}
        self.sparkContext = _Java(
            master=master,
            _gateway=_Java(new_array=self._array),
            _jsc=_Java(addJar=self._add),
            _temp_dir=str(temp),
        )
        self._jvm: Any = _Java(
            java=_Java(
                io=_Java(File=self._file),
                net=_Java(URL=object, URLClassLoader=self._loader),
                lang=_Java(Class=object, Object=object),
            ),
            org=_Java(codehaus=_Java(janino=_Java(SimpleCompiler=self._compiler))),
        )
        methods = _Java(
            **{"extraOptimizations": self._rules, "extraOptimizations_$eq": self._set_rules},
        )
        kind = _Java(getClassLoader=object)
        self._jsparkSession = _Java(experimental=_returns(methods), getClass=_returns(kind))

    def without_compiler(self) -> "_Session":
        """As py4j has it where a class is missing: a package of that name."""
        java: Any = importlib.import_module("py4j.java_gateway")
        self._jvm.org = java.JavaPackage("org", None, None)
        return self

    def _rules(self) -> _Rules:
        return self.rules

    def _set_rules(self, rules: _Rules) -> None:
        self.rules = rules

    def _array(self, _kind: Any, size: int) -> list[Any]:
        return [None] * size

    def _add(self, uri: str) -> None:
        parts = urlsplit(uri)
        assert (parts.scheme, parts.query, parts.fragment) == ("file", "", ""), uri
        self.jars.append(Path(unquote(parts.path)))

    def _file(self, path: str) -> Any:
        return _Java(toURI=_returns(_Java(toURL=_returns(path), toString=_returns(f"file:{quote(path)}"))))

    def _loader(self, urls: list[str], _parent: Any) -> Any:
        with zipfile.ZipFile(urls[0]) as archive:
            archive.read(RULE.replace(".", "/") + ".class")
        rule = _Java(getClass=_returns(_Java(getName=_returns(RULE))))
        return _Java(
            loadClass=_returns(_Java(getDeclaredConstructor=_returns(_Java(newInstance=_returns(rule)))))
        )

    def _compiler(self) -> Any:
        return _Java(
            setParentClassLoader=_returns(None), cook=self._cook, getBytecodes=_returns({RULE: b"code"})
        )

    def _cook(self, source: str) -> None:
        assert "class ColumnarRule" in source
        self.compiled += 1


def _returns(answer: Any) -> Any:
    def method(*_given: Any) -> Any:
        return answer

    return method


def test_another_version_of_spark_is_left_alone() -> None:
    assert not read_columns(SimpleNamespace(version="4.4.0"), {})
    assert not read_columns(SimpleNamespace(version="4.2.1"), {})


def test_a_refusal_leaves_the_session_as_it_was(tmp_path: Path) -> None:
    assert not read_columns(_Refuses(), {"HOME": str(tmp_path)})
    assert not list(tmp_path.iterdir())


def test_the_jar_is_compiled_once_and_serves_later_sessions(tmp_path: Path) -> None:
    first, second = _Session(tmp_path / "a"), _Session(tmp_path / "b")

    assert read_columns(first, {"XDG_CACHE_HOME": str(tmp_path)})
    assert read_columns(second, {"XDG_CACHE_HOME": str(tmp_path)})
    assert (first.compiled, second.compiled) == (1, 0)
    assert first.jars == second.jars == list((tmp_path / "everlog").iterdir())
    assert len(second.rules) == 1


def test_a_folder_with_signs_of_a_uri_is_given_as_one(tmp_path: Path) -> None:
    spark = _Session(tmp_path)
    (tmp_path / "a#b %41?c").mkdir()

    assert read_columns(spark, {"XDG_CACHE_HOME": str(tmp_path / "a#b %41?c")})
    assert [jar.is_file() for jar in spark.jars] == [True]


def test_a_session_whose_tasks_see_its_own_jars_alone_reads_rows(tmp_path: Path) -> None:
    isolated = _Session(tmp_path, {"spark.sql.artifact.isolation.enabled": "true"})

    assert not read_columns(isolated, {"HOME": str(tmp_path)})
    assert not isolated.jars
    assert not isolated.rules


def test_a_spark_without_the_compiler_reads_rows(tmp_path: Path) -> None:
    without = _Session(tmp_path).without_compiler()

    assert not read_columns(without, {"HOME": str(tmp_path)})
    assert not without.rules


def test_who_has_no_home_has_the_jar_in_the_folder_of_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless(_path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    spark = _Session(tmp_path)

    assert read_columns(spark, {})
    assert [jar.parent for jar in spark.jars] == [tmp_path]


def test_a_cache_that_cannot_be_written_costs_a_compilation_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    spark = _Session(tmp_path / "session")

    assert read_columns(spark, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert [jar.parent for jar in spark.jars] == [tmp_path / "session"]


@pytest.mark.parametrize("damage", [b"", b"no jar at all"])
def test_a_damaged_jar_is_compiled_anew(tmp_path: Path, damage: bytes) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    assert read_columns(_Session(tmp_path), cache)
    [jar] = (tmp_path / "everlog").iterdir()
    whole = jar.read_bytes()
    jar.write_bytes(damage or whole.replace(b"code", b"c0de"))
    spark = _Session(tmp_path)

    assert read_columns(spark, cache)
    assert spark.compiled == 1
    assert spark.jars == [jar]
    with zipfile.ZipFile(jar) as archive:
        assert archive.testzip() is None


def test_a_jar_that_others_can_have_written_is_not_run(tmp_path: Path) -> None:
    """Whoever may write where it lies could have any user's Spark run what they like."""
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert read_columns(_Session(tmp_path), cache)
    [jar] = (tmp_path / "cache" / "everlog").iterdir()
    assert jar.stat().st_mode & 0o777 == 0o600
    jar.chmod(0o666)
    again = _Session(tmp_path)
    assert read_columns(again, cache)
    assert (again.compiled, again.jars, jar.stat().st_mode & 0o777) == (1, [jar], 0o600)

    jar.parent.chmod(0o777)
    spark = _Session(tmp_path / "session")

    assert read_columns(spark, cache)
    assert spark.compiled == 1
    assert [one.parent for one in spark.jars] == [tmp_path / "session"]


def test_a_jar_that_cannot_be_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)

    assert not read_columns(_Session(tmp_path), {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


@pytest.mark.parametrize("master", ["spark://10.0.0.5:7077", "local[4]"])
def test_a_session_that_was_there_already_counts_with_its_own_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    there = _Session(tmp_path, master=master)
    _let_spark_make(there, monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    made: Any = session(master="local[2]")
    assert made is there
    assert len(there.rules) == (1 if in_this_process(master) else 0)


@pytest.mark.parametrize("low_latency", [False, True])
def test_a_session_of_spark_connect_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch, *, low_latency: bool
) -> None:
    remote = SimpleNamespace()
    _let_spark_make(remote, monkeypatch)

    made: Any = session(master="local[2]", low_latency=low_latency)
    assert made is remote


def _let_spark_make(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = _Java(getOrCreate=_returns(made))
    for name in ("appName", "master", "config"):
        setattr(builder, name, _returns(builder))
    monkeypatch.setitem(sys.modules, "pyspark.sql", _Java(SparkSession=_Java(builder=builder)))
    monkeypatch.setattr("everlog.spark.session.prepare", _returns(None))
    monkeypatch.setattr("everlog.spark.session.use_quick_python", _returns(None))


@pytest.mark.parametrize(
    ("master", "one"),
    [
        ("local", True),
        ("local[2]", True),
        ("local-cluster[1,1,1024]", False),
        ("spark://127.0.0.1:7077", False),
    ],
)
def test_only_a_session_without_executors_of_its_own_reads_columns(master: str, one: bool) -> None:
    assert in_this_process(master) is one
