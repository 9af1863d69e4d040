"""What the guide to connections shows but cannot run here still has to be right: settings, their defaults."""

import ast
import dataclasses
import re
from collections.abc import Iterator

from everlog.client.core.settings import ConnectionSettings
from tests.docs.test_guides import GUIDES

TEXT = (GUIDES / "connections.md").read_text()
_NOT_RUN = re.compile(r"^<!-- not run: [^\n]*-->\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def settings_shown() -> Iterator[str]:
    """The keyword arguments of the clients in the examples that are not run."""
    for block in _NOT_RUN.findall(TEXT):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                yield from (keyword.arg for keyword in node.keywords if keyword.arg is not None)


def test_the_examples_use_settings_that_there_are() -> None:
    shown = set(settings_shown())

    assert {"ssl_cafile", "sasl_mechanism"} <= shown
    assert shown <= {field.name for field in dataclasses.fields(ConnectionSettings)} | {"topics", "group_id"}


def test_the_guide_names_each_setting_with_its_default_and_meaning() -> None:
    for field in dataclasses.fields(ConnectionSettings):
        row = f"| `{field.name}` | `{field.default}` | {field.metadata['meaning']} |"
        assert row in TEXT, row
