"""What is generated is what is committed, and the table of APIs is what the schemas say."""

import subprocess
import sys
from pathlib import Path

from everlog import wire
from everlog.wire.apis import APIS, FIRST_OWN_KEY, ApiKey
from everlog.wire.generate import generate
from tests.unit.wire.drawing import SCHEMAS, message_type

ROOT = Path(wire.__file__).parent

SERVED = (
    "0 3-13, 1 4-18, 2 1-11, 3 0-13, 8 2-10, 9 1-10, 10 0-6, 11 0-9, 12 0-4, 13 0-5, 14 0-5, "
    "15 0-6, 16 0-5, 17 0-1, 18 0-5, 19 2-7, 20 1-6, 21 0-2, 22 0-6, 23 2-4, 24 0-5, 25 0-4, "
    "26 0-5, 27 1-2, 28 0-6, 29 1-3, 30 1-3, 31 1-3, 32 1-4, 33 0-2, 34 1-2, 35 1-5, 36 0-2, "
    "37 0-3, 38 1-3, 39 1-2, 40 1-2, 41 1-3, 42 0-3, 43 0-2, 44 0-1, 45 0-1, 46 0-0, 47 0-0, "
    "48 0-1, 49 0-1, 50 0-0, 51 0-0, 52 0-2, 53 0-1, 54 0-1, 55 0-2, 56 2-3, 57 0-2, 58 0-0, "
    "59 0-1, 60 0-2, 61 0-0, 62 0-4, 63 0-2, 64 0-0, 65 0-0, 66 0-2, 67 0-0, 68 0-1, 69 0-1, "
    "70 0-0, 71 0-0, 72 0-0, 73 0-0, 74 0-1, 75 0-0, 76 1-1, 77 1-1, 78 1-2, 79 1-2, 80 0-1, "
    "81 0-0, 82 0-0, 83 0-0, 84 0-0, 85 0-1, 86 0-0, 87 0-1, 90 0-1, 91 0-0, 92 0-0, 94 0-0"
)
"""The APIs of Kafka 4.4 and their versions, without streams groups."""


def test_the_committed_files_are_what_the_schemas_give() -> None:
    files = generate()
    committed = {f"messages/{path.name}" for path in (ROOT / "messages").glob("*.py")} | {"api_keys.py"}

    assert committed == set(files), "run python -m everlog.wire.generate"
    stale = [path for path, content in files.items() if (ROOT / path).read_text(encoding="utf-8") != content]
    assert stale == [], "run python -m everlog.wire.generate"


def test_the_table_of_apis_is_what_the_schemas_say() -> None:
    requests = {schema.key: schema for schema in SCHEMAS.values() if schema.kind == "request"}

    assert set(APIS) == set(requests) == set(ApiKey)
    for key, api in APIS.items():
        schema = requests[key]
        assert schema.versions == (api.min_version, api.max_version)
        assert api.flexible_from == (api.max_version + 1 if schema.flexible is None else schema.flexible)
        assert api.last_unstable == schema.last_unstable
        assert schema.listeners == ("broker",) * api.on_broker + ("controller",) * api.on_controller
        assert key == message_type(schema).KEY
        assert key == message_type(SCHEMAS[f"{api.name}Response"]).KEY


def test_the_apis_are_those_of_kafka_4_4() -> None:
    found = [f"{key} {api.min_version}-{api.max_version}" for key, api in APIS.items() if key < FIRST_OWN_KEY]

    assert ", ".join(found) == SERVED
    assert [api.name for key, api in APIS.items() if key >= FIRST_OWN_KEY] == ["GetReplicaLogInfo"]


def test_what_is_advertised_differs_from_what_is_read_in_two_apis() -> None:
    differing = {
        api.name: (api.advertised_min, api.advertised_max)
        for api in APIS.values()
        if (api.advertised_min, api.advertised_max) != (api.min_version, api.max_version)
    }

    assert differing == {"Produce": (0, 13), "InitProducerId": (0, 5)}


def test_a_generated_module_imports_nothing_that_takes_time() -> None:
    imports = {
        line.split()[1]
        for path, content in generate().items()
        if path.startswith("messages/")
        for line in content.splitlines()
        if line.startswith(("from ", "import "))
    }

    assert imports == {"__future__", "typing", "everlog.model.ids", "everlog.wire.message"}


def test_a_start_pays_for_no_message_and_no_schema_that_it_does_not_use() -> None:
    program = "import sys, everlog.wire.codec; print(*sys.modules)"
    environment = {"PYTHONPATH": str(ROOT.parent.parent)}

    loaded = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout.split()

    assert "everlog.wire.codec" in loaded
    assert not [
        name for name in loaded if name.startswith(("everlog.wire.messages", "everlog.wire.schemas."))
    ]
