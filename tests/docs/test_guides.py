"""Each guide's Python examples run, in order, as one program against a real broker.

`127.0.0.1:9092` in them is that broker. An example that cannot run alone stands behind the line
`<!-- not run: why -->`. In some guides the commands for a terminal run as well, in their places.
"""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.cli.main import main

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
SHOWN_ADDRESS = "127.0.0.1:9092"
WITH_COMMANDS = ("dead-letters", "tables")
"""Guides whose commands belong to the program that the examples make up."""
_BLOCK = re.compile(
    r"^(?P<skip><!-- not run: [^\n]*-->\n)?```(?P<language>python|console)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


def blocks(guide: Path) -> list[tuple[int, str, str]]:
    """The examples of a guide: the number of lines before each, its language, itself."""
    text = guide.read_text()
    return [
        (text.count("\n", 0, found.start("code")), found["language"], found["code"])
        for found in _BLOCK.finditer(text)
        if not found["skip"] and (found["language"] == "python" or guide.stem in WITH_COMMANDS)
    ]


def run_commands(text: str) -> None:
    """Run the lines of a terminal, all of them ours, one after the other."""
    for line in text.replace("\\\n", " ").splitlines():
        dollar, program, *arguments = shlex.split(line, comments=True)
        assert (dollar, program) == ("$", "everlog"), line
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0, line


@pytest.mark.parametrize("guide", sorted(GUIDES.glob("*.md")), ids=lambda guide: guide.stem)
def test_the_examples_of_a_guide_run(guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks(guide)
    assert any(language == "python" for _, language, _ in found), f"{guide} has no example"
    namespace: dict[str, Any] = {"__name__": "__main__"}
    # Its own: guides use the same names for topics. Their groups need not wait for more members.
    at_once = {"group.initial.rebalance.delay.ms": 0}
    with everlog.Cluster(processes=True, settings=at_once) as cluster:
        monkeypatch.setenv("EVERLOG_BOOTSTRAP", cluster.bootstrap_servers)
        for lines_before, language, code in found:
            if language == "console":
                run_commands(code)
                continue
            # As many empty lines before it as in the guide, so that a failure names the guide's line.
            source = "\n" * lines_before + code.replace(SHOWN_ADDRESS, cluster.bootstrap_servers)
            exec(compile(source, str(guide), "exec"), namespace)
