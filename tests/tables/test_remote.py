"""Tables and checkpoints that are not on this machine: in an S3, spelled as Spark spells it."""

import os
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from everlog.spark.table.covered import batch_covers
from everlog.tables.arrow import fs
from everlog.tables.errors import TableError, TableMisdeclared
from everlog.tables.offsets import OffsetRanges
from everlog.tables.spec import TableSpec
from everlog.tables.table import open_table
from tests.tables.builders import a_spec, ids, orders
from tests.tables.s3_server import s3_server


@pytest.fixture(scope="module", autouse=True)
def s3() -> Generator[Any]:
    """The file system of an S3 to which this process's environment leads."""
    with s3_server() as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield fs.FileSystem.from_uri("s3://lake")[0]


@pytest.fixture(params=["iceberg", "delta"])
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> TableSpec:
    """A table in a bucket; Iceberg's needs a catalog, which is elsewhere."""
    catalog = {
        "iceberg.catalog.type": "sql",
        "iceberg.catalog.uri": f"sqlite:///{tmp_path}/catalog.db",
        "iceberg.catalog.s3.endpoint": os.environ["AWS_ENDPOINT_URL"],
    }
    return a_spec(
        tmp_path,
        location=f"s3a://lake/{request.param}/orders",
        format=request.param,
        properties=catalog if request.param == "iceberg" else {},
    )


def test_a_table_may_be_where_spark_has_its_storage(spec: TableSpec, s3: Any) -> None:
    table = open_table(spec)
    for batch in range(3):
        table.commit("query", batch, [table.stage([orders(range(batch * 5, batch * 5 + 5))])])
    table.commit("query", 2, [table.stage([orders(range(10, 15))])])

    assert ids(open_table(spec, create=False)) == list(range(15))
    assert table.compact().files_after == 1
    table.expire(timedelta(0), orphans_after=timedelta(0))
    assert ids(open_table(spec, create=False)) == list(range(15))
    assert s3.get_file_info(fs.FileSelector(f"lake/{spec.format}/orders/data"))


def test_what_cannot_be_remote_says_what_can(tmp_path: Path) -> None:
    with pytest.raises(TableMisdeclared, match=r"needs a directory.*format delta, or iceberg with"):
        open_table(a_spec(tmp_path, location="s3a://lake/orders"))
    with pytest.raises(TableError, match=r"expected the property iceberg\.catalog\.uri"):
        open_table(a_spec(tmp_path, location="s3a://lake/orders", format="iceberg"))
    with pytest.raises(TableError, match="location 'dbfs:/orders': expected a directory or a URI") as caught:
        open_table(a_spec(tmp_path, location="dbfs:/orders", format="delta"))
    assert "\n" not in str(caught.value)


def test_what_a_batch_covers_is_read_from_a_remote_checkpoint(s3: Any) -> None:
    for batch, end in enumerate((10, 25)):
        with s3.open_output_stream(f"lake/check/offsets/{batch}") as file:
            file.write(f'v1\n{{}}\n{{"orders":{{"0":{end}}}}}'.encode())

    assert batch_covers(OffsetRanges(), "s3a://lake/check", 1) == OffsetRanges.of({("orders", 0): (10, 25)})
    assert batch_covers(OffsetRanges(), "s3a://lake/check", 2) is None
