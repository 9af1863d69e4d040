"""Every input that fuzzing has kept is read again, within bounds on time and memory (O5).

It needs no fuzzer. `python -m tests.fuzz.run` makes new inputs; see there.
"""

import time
import tomllib
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.fuzz import run
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parents[1] / "corpus"
MAX_CORPUS_BYTES = 1 << 20
MAX_MEMORY_BYTES = 16 << 20
MAX_CPU_SECONDS = 5.0


def inputs(target: Target) -> Iterator[tuple[str, bytes]]:
    for number, seed in enumerate(target.seeds()):
        yield f"{target.name}/seed {number}", seed
    directory = CORPUS / target.name
    for file in sorted(directory.iterdir()) if directory.exists() else ():
        yield f"{target.name}/{file.name}", file.read_bytes()


def replay(target: Target, name: str, data: bytes) -> None:
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    start = time.process_time()
    try:
        target.run(data)
    except Exception as error:
        error.add_note(f"the input is {name}: {data[:200]!r}")
        raise
    taken = time.process_time() - start
    risen = tracemalloc.get_traced_memory()[1] - before
    assert taken < MAX_CPU_SECONDS, f"{name} took {taken:.1f} s"
    assert risen < MAX_MEMORY_BYTES, f"{name} took {risen} bytes"


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_kept_inputs_are_read_or_refused_within_bounds(target: Target) -> None:
    for name, data in inputs(target):
        replay(target, name, data)


def test_the_corpus_is_small_and_has_something_for_every_target_and_nothing_else() -> None:
    files = [file for file in CORPUS.rglob("*") if file.is_file()]

    assert {file.parent.name for file in files} == set(TARGETS)
    assert sum(file.stat().st_size for file in files) < MAX_CORPUS_BYTES


@pytest.mark.parametrize(
    ("system", "machine", "wanted"),
    [("linux", "x86_64", True), ("linux", "aarch64", False), ("darwin", "arm64", False)],
)
def test_the_fuzzer_is_asked_for_only_where_there_is_a_wheel_of_it(
    system: str, machine: str, *, wanted: bool
) -> None:
    project = tomllib.loads((CORPUS.parents[1] / "pyproject.toml").read_text())
    listed = project["project"]["optional-dependencies"]["test"]
    (atheris,) = (one for one in map(Requirement, listed) if one.name == "atheris")

    assert atheris.marker is not None
    assert atheris.marker.evaluate({"sys_platform": system, "platform_machine": machine}) == wanted


def test_whoever_fuzzes_without_the_fuzzer_is_told_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find_nothing(_name: str) -> None:
        """Say that it is not installed."""

    monkeypatch.setattr("tests.fuzz.run.find_spec", find_nothing)
    monkeypatch.setattr("sys.argv", ["run"])

    with pytest.raises(SystemExit, match=r"atheris is not installed.*replayed without it"):
        run.main()
