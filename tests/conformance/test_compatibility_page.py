"""What `docs/compatibility.md` says of APIs and settings is so."""

import re
from pathlib import Path
from typing import cast

import pytest

from everlog.broker.dispatch import SERVED
from everlog.model.settings import BROKER_SETTINGS
from everlog.wire.apis import APIS, FIRST_OWN_KEY

pytestmark = pytest.mark.conformance

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"


def test_the_page_lists_every_api_that_is_served_with_its_versions() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)-(\d+) \|$", _PAGE.read_text(), re.M)

    listed = {int(key): (name, int(low), int(high)) for key, name, low, high in rows}

    served = {key: versions for key, versions in SERVED.items() if key < FIRST_OWN_KEY}
    assert listed == {key: (APIS[key].name, low, high) for key, (low, high) in served.items()}


def test_the_page_lists_every_setting_of_our_own_with_its_default_and_meaning() -> None:
    rows = re.findall(r"^\| `([a-z.]+)` \| (.*?) \| (.*) \|$", _PAGE.read_text(), re.M)

    ours = [setting for setting in BROKER_SETTINGS.values() if setting.ours]
    assert rows == [(setting.key, _text(setting.default), setting.meaning) for setting in ours]


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case tuple():
            return ",".join(map(str, cast(tuple[object, ...], value)))
        case bool():
            return str(value).lower()
        case _:
            return str(value)
