"""The examples of the guide that need Spark run, in order, in the session of the tests."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.spark.source.options import NAMES
from tests.spark.patience import patiently

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "spark-source.md"
_BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_guide_names_each_option() -> None:
    text = GUIDE.read_text()
    assert [name for name in NAMES if f"`{name}`" not in text] == []


def test_the_examples_run(spark: Any, everlog_bootstrap: str, capfd: pytest.CaptureFixture[str]) -> None:
    with everlog.Admin(everlog_bootstrap) as admin:
        admin.create_topic("sales", partitions=2)
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": spark}
    for block in _BLOCK.finditer(GUIDE.read_text()):
        if "import session" in block["code"]:
            continue
        code = compile(block["code"].replace("127.0.0.1:9092", everlog_bootstrap), str(GUIDE), "exec")
        patiently(partial(exec, code, namespace))

    assert namespace["sales"].count() == 1001
    assert sum(progress.numInputRows for progress in namespace["query"].recentProgress) == 1001
    assert "not JSON at all" in capfd.readouterr().out
