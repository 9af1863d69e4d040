"""What `docs/compatibility.md` says of the APIs is what the broker serves."""

import re
from pathlib import Path

import pytest

from everlog.broker.dispatch import SERVED
from everlog.wire.apis import APIS, FIRST_OWN_KEY

pytestmark = pytest.mark.conformance

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"


def test_the_page_lists_every_api_that_is_served_with_its_versions() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)-(\d+) \|$", _PAGE.read_text(), re.M)

    listed = {int(key): (name, int(low), int(high)) for key, name, low, high in rows}

    served = {key: versions for key, versions in SERVED.items() if key < FIRST_OWN_KEY}
    assert listed == {key: (APIS[key].name, low, high) for key, (low, high) in served.items()}
