"""The examples of the guide that need Spark run, in order, in the session of the tests."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import everlog
from tests.spark.patience import patiently
from tests.unit.values.test_protobuf import SET

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "spark-source.md"
_BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_examples_run(
    spark: Any, everlog_bootstrap: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    descriptors = tmp_path / "shop.desc"
    descriptors.write_bytes(SET.SerializeToString())
    with everlog.Admin(everlog_bootstrap) as admin:
        admin.create_topic("sales", partitions=2)
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": spark}
    for block in _BLOCK.finditer(GUIDE.read_text()):
        if "import session" in block["code"]:
            continue
        text = block["code"].replace("127.0.0.1:9092", everlog_bootstrap)
        # Spark reads files from where its Java was started.
        text = text.replace('"shop.desc"', repr(str(descriptors)))
        code = compile(text, str(GUIDE), "exec")
        patiently(partial(exec, code, namespace))

    assert namespace["sales"].count() == 1001
    assert sum(progress.numInputRows for progress in namespace["query"].recentProgress) == 1001
    assert "not JSON at all" in capfd.readouterr().out
    assert "took" in namespace["orders"].columns
