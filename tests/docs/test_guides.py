"""Each guide's Python examples run, in order, as one program against a real broker.

`127.0.0.1:9092` in them is that broker. An example that cannot run alone stands behind the line
`<!-- not run: why -->`.
"""

import re
from pathlib import Path
from typing import Any

import pytest

import everlog

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
SHOWN_ADDRESS = "127.0.0.1:9092"
_BLOCK = re.compile(
    r"^(?P<skip><!-- not run: [^\n]*-->\n)?```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)


def blocks(guide: Path) -> list[tuple[int, str]]:
    """The examples of a guide, each with the number of lines before it."""
    text = guide.read_text()
    return [
        (text.count("\n", 0, found.start("code")), found["code"])
        for found in _BLOCK.finditer(text)
        if not found["skip"]
    ]


@pytest.mark.parametrize("guide", sorted(GUIDES.glob("*.md")), ids=lambda guide: guide.stem)
def test_the_examples_of_a_guide_run(guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks(guide)
    assert found, f"{guide} has no example"
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with everlog.Cluster(processes=True) as cluster:  # Its own: guides use the same names for topics.
        for lines_before, code in found:
            # As many empty lines before it as in the guide, so that a failure names the guide's line.
            source = "\n" * lines_before + code.replace(SHOWN_ADDRESS, cluster.bootstrap_servers)
            exec(compile(source, str(guide), "exec"), namespace)
