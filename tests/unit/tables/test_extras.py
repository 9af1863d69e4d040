"""What is said when a library is not installed, and what is imported without need."""

import subprocess
import sys
from pathlib import Path

import pytest

from everlog.tables.errors import ExtraMissing
from everlog.tables.table import open_table
from tests.tables.builders import a_spec


@pytest.mark.parametrize(("format_", "library"), [("iceberg", "pyiceberg.catalog"), ("delta", "deltalake")])
def test_a_missing_library_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, format_: str, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(ExtraMissing, match=r"needs \w+, which is not installed: pip install everlog\[lake\]"):
        open_table(a_spec(tmp_path, format=format_))


def test_a_parquet_table_needs_neither_of_them() -> None:
    program = (
        "import sys, everlog.tables.table, everlog.tables.parquet_store; "
        "assert not {'deltalake', 'pyiceberg', 'pyspark', 'sqlalchemy'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_a_declaration_is_read_without_arrow() -> None:
    program = "import sys, everlog.tables.spec; assert 'pyarrow' not in sys.modules"

    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
