"""Protobuf values: types, presence, the prefix of registries, and what does not fit."""

import base64
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.values import BadSetting, decoder, encoder, portable, protobuf_columns
from everlog.values.arrow import pa

# protobuf has no types of its own.
_pb: Any = import_module("google.protobuf.descriptor_pb2")
_text: Any = import_module("google.protobuf.text_format")
_pools: Any = import_module("google.protobuf.descriptor_pool")
_factory: Any = import_module("google.protobuf.message_factory")
_timestamps: Any = import_module("google.protobuf.timestamp_pb2")
_durations: Any = import_module("google.protobuf.duration_pb2")

# The imported file comes last, as nobody promises another order; what protoc brings itself is left out.
SHOP = """
file {
  name: "shop.proto" package: "shop" syntax: "proto3"
  dependency: ["item.proto", "google/protobuf/timestamp.proto", "google/protobuf/duration.proto"]
  message_type { name: "Zero" field { name: "n" number: 1 type: TYPE_INT32 ONE } }
  message_type {
    name: "Order"
    field { name: "id" number: 1 type: TYPE_INT64 ONE }
    field { name: "note" number: 2 type: TYPE_STRING ONE proto3_optional: true oneof_index: 0 }
    field { name: "big" number: 3 type: TYPE_UINT64 ONE }
    field { name: "count" number: 4 type: TYPE_UINT32 ONE }
    field { name: "state" number: 5 type: TYPE_ENUM type_name: ".shop.State" ONE }
    field { name: "at" number: 6 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" ONE }
    field { name: "took" number: 7 type: TYPE_MESSAGE type_name: ".google.protobuf.Duration" ONE }
    field { name: "items" number: 8 type: TYPE_MESSAGE type_name: ".shop.Item" MANY }
    field { name: "tags" number: 9 type: TYPE_MESSAGE type_name: ".shop.Order.TagsEntry" MANY }
    field { name: "first" number: 10 type: TYPE_MESSAGE type_name: ".shop.Item" ONE }
    field { name: "raw" number: 11 type: TYPE_BYTES ONE }
    field { name: "codes" number: 12 type: TYPE_SINT32 MANY }
    field { name: "price" number: 13 type: TYPE_DOUBLE ONE }
    nested_type {
      name: "TagsEntry" options { map_entry: true }
      field { name: "key" number: 1 type: TYPE_STRING ONE }
      field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".shop.Item" ONE }
    }
    nested_type { name: "Line" field { name: "n" number: 1 type: TYPE_INT32 ONE } }
    oneof_decl { name: "_note" }
  }
  message_type {
    name: "Node"
    field { name: "next" number: 1 type: TYPE_MESSAGE type_name: ".shop.Node" ONE }
    field { name: "n" number: 2 type: TYPE_INT32 ONE }
  }
  enum_type { name: "State" value { name: "NEW" number: 0 } value { name: "DONE" number: 3 } }
}
file {
  name: "item.proto" package: "shop" syntax: "proto3"
  message_type { name: "Item" field { name: "n" number: 1 type: TYPE_INT32 ONE } }
}
"""
SET: Any = _text.Parse(
    SHOP.replace(" ONE ", " label: LABEL_OPTIONAL ").replace(" MANY ", " label: LABEL_REPEATED "),
    _pb.FileDescriptorSet(),
)
DESCRIPTORS = "base64:" + base64.b64encode(SET.SerializeToString()).decode()
ORDER = {"protobufDescriptors": DESCRIPTORS, "protobufMessage": "shop.Order"}
ROW: dict[str, Any] = {
    "id": 7,
    "note": "x",
    "big": Decimal(2**64 - 1),
    "count": 2**32 - 1,
    "state": "DONE",
    "at": datetime(2026, 1, 31, 12, 0, 0, 250, tzinfo=UTC),
    "took": timedelta(milliseconds=-1500),
    "items": [{"n": 1}, {"n": 2}],
    "tags": [("a", {"n": 3})],
    "first": {"n": 0},
    "raw": b"\xff",
    "codes": [-1, 5],
    "price": 9.5,
}
EMPTY: dict[str, Any] = {
    **dict.fromkeys(("note", "at", "took", "first")),
    "id": 0,
    "big": Decimal(0),
    "count": 0,
    "state": "NEW",
    "items": [],
    "tags": [],
    "raw": b"",
    "codes": [],
    "price": 0.0,
}
ID_42 = b"\0" + (42).to_bytes(4)
ORDER_42 = ID_42 + b"\x02\x02"
"""One number follows, and it is 1: the second message of its file."""


def message_class(name: str) -> Any:
    """A class of messages as protobuf makes it, with no code of ours."""
    pool: Any = _pools.DescriptorPool()
    for made in (_timestamps, _durations):
        pool.AddSerializedFile(made.DESCRIPTOR.serialized_pb)
    for file in reversed(SET.file):
        pool.Add(file)
    return _factory.GetMessageClass(pool.FindMessageTypeByName(name))


def an_order(**changed: Any) -> bytes:
    order = message_class("shop.Order")(
        id=7, note="x", big=2**64 - 1, count=2**32 - 1, state=3, raw=b"\xff", codes=[-1, 5], price=9.5
    )
    order.at.FromDatetime(ROW["at"])
    order.took.FromTimedelta(ROW["took"])
    for n in (1, 2):
        order.items.add(n=n)
    order.tags["a"].n = 3
    order.first.SetInParent()
    for name, value in changed.items():
        setattr(order, name, value)
    return bytes(order.SerializeToString())


def test_the_columns_of_a_message_are_spark_s() -> None:
    item = pa.struct({"n": pa.int32()})
    assert protobuf_columns(ORDER) == pa.schema(
        {
            "id": pa.int64(),
            "note": pa.string(),
            "big": pa.decimal128(20, 0),
            "count": pa.int64(),
            "state": pa.string(),
            "at": pa.timestamp("us", "UTC"),
            "took": pa.duration("us"),
            "items": pa.list_(item),
            "tags": pa.map_(pa.string(), item),
            "first": item,
            "raw": pa.binary(),
            "codes": pa.list_(pa.int32()),
            "price": pa.float64(),
        }
    )


@pytest.mark.parametrize("prefix", [b"", ORDER_42], ids=["plain", "prefixed"])
def test_values_are_read_with_and_without_a_prefix(prefix: bytes) -> None:
    values = pa.array([prefix + an_order(), None, prefix + an_order(id=8), prefix])

    decoded = decoder("protobuf", protobuf_columns(ORDER), ORDER).decode(values)

    assert decoded.first_error() is None
    assert decoded.columns.to_pylist() == [ROW, dict.fromkeys(ROW), {**ROW, "id": 8}, EMPTY]


def test_a_value_that_is_no_such_message_is_an_error_of_its_row() -> None:
    zero = ID_42 + b"\0" + message_class("shop.Zero")(n=1).SerializeToString()
    values = pa.array(
        [an_order(), b"not Protobuf", an_order()[:-1], zero, ID_42 + b"\x82", b"\0", ID_42 + b"\x01"]
    )

    decoded = decoder("protobuf", protobuf_columns(ORDER), ORDER).decode(values)

    reasons = decoded.errors.to_pylist()
    assert reasons[0] is None
    assert [reason.startswith("not a message shop.Order: ") for reason in reasons[1:3]] == [True, True]
    assert reasons[3] == (
        "schema id 42 of its prefix, message [0] of its file: expected shop.Order, which is [1]"
    )
    no_prefix = "it begins with a zero byte, and with no prefix of a registry: 0x00"
    assert [reason.startswith(no_prefix) for reason in reasons[4:]] == [True, True, True]
    assert decoded.columns.to_pylist() == [ROW, *[dict.fromkeys(ROW)] * 6]


def test_columns_may_be_fewer_and_of_other_types() -> None:
    schema = pa.schema({"state": pa.int32(), "big": pa.int64(), "at": pa.struct({"seconds": pa.int64()})})

    decoded = decoder("protobuf", schema, ORDER).decode(
        pa.array([an_order(big=5), an_order(), an_order(state=9)])
    )

    seconds = {"seconds": int(ROW["at"].timestamp())}
    assert decoded.columns.to_pylist()[0] == {"state": 3, "big": 5, "at": seconds}
    assert decoded.first_error() == f"record 1: field 'big': found '{2**64 - 1}', expected int64"
    names = decoder("protobuf", pa.schema({"state": pa.string()}), ORDER).decode(
        pa.array([an_order(state=9)])
    )
    assert names.columns.to_pylist() == [{"state": "9"}]


@pytest.mark.parametrize("number", [None, "42"])
def test_what_is_written_is_read_back(number: str | None) -> None:
    columns = pa.array([ROW, None, EMPTY], pa.struct(list(protobuf_columns(ORDER))))
    chosen = ORDER | ({"schemaId": number} if number else {})

    values = encoder("protobuf", protobuf_columns(ORDER), chosen).encode(columns)

    assert values[0].as_py().startswith(ORDER_42) == (number == "42")
    assert values[1].as_py() is None
    message = message_class("shop.Order").FromString(values[0].as_py().removeprefix(ORDER_42))
    assert (message.id, message.state, message.big, message.tags["a"].n) == (7, 3, 2**64 - 1, 3)
    assert message.HasField("first")
    decoded = decoder("protobuf", protobuf_columns(ORDER), chosen).decode(values)
    assert decoded.columns.to_pylist() == [ROW, dict.fromkeys(ROW), EMPTY]


def test_a_struct_of_nulls_is_there_and_a_null_one_is_not() -> None:
    item = pa.struct({"n": pa.int32()})
    columns = pa.array([{"first": {"n": None}}, {"first": None}], pa.struct({"first": item}))

    values = encoder("protobuf", pa.schema({"first": item}), ORDER).encode(columns).to_pylist()

    messages = [message_class("shop.Order").FromString(value) for value in values]
    assert [message.HasField("first") for message in messages] == [True, False]


def test_where_a_message_stands_in_its_file_is_in_the_prefix() -> None:
    prefixes = {
        name: encoder(
            "protobuf",
            pa.schema({"n": pa.int32()}),
            {"protobufDescriptors": DESCRIPTORS, "protobufMessage": name, "schemaId": "42"},
        )
        .encode(pa.array([{"n": 0}], pa.struct({"n": pa.int32()})))[0]
        .as_py()
        for name in ("shop.Zero", "shop.Order.Line", "shop.Node")
    }

    # Numbers are zigzag: a count of 2 is 4, the places 1 and 1 are 2 and 2.
    assert prefixes == {
        "shop.Zero": ID_42 + b"\0",
        "shop.Order.Line": ID_42 + b"\x04\x02\x02",
        "shop.Node": ID_42 + b"\x02\x04",
    }


@pytest.mark.parametrize(
    ("name", "kind", "value", "reason"),
    [
        ("count", pa.int64(), -1, "record 1 does not fit message shop.Order, field 'count': "),
        ("state", pa.string(), "LOST", "field 'state': ValueError"),
        ("codes", pa.list_(pa.int32()), [None], "field 'codes': TypeError"),
        ("first", pa.int32(), 5, "field 'first': TypeError: found 5, expected shop.Item"),
        ("big", pa.decimal128(20, 1), Decimal("1.5"), "field 'big': ValueError: 1.5 is not whole"),
    ],
)
def test_a_row_that_the_message_has_no_room_for_is_named(
    name: str, kind: Any, value: Any, reason: str
) -> None:
    columns = pa.array([{name: None}, {name: value}], pa.struct({name: kind}))

    with pytest.raises(ValueError, match=reason):
        encoder("protobuf", pa.schema({name: kind}), ORDER).encode(columns)


@pytest.mark.parametrize(
    ("schema", "chosen", "reason"),
    [
        ({"id": pa.int64()}, {"protobufMessage": "shop.Order"}, "setting protobufDescriptors is missing"),
        ({"id": pa.int64()}, {"protobufDescriptors": DESCRIPTORS}, "setting protobufMessage is missing"),
        (
            {"id": pa.int64()},
            {**ORDER, "protobufMessage": "shop.Ordr"},
            "protobufMessage is 'shop.Ordr', which .* expected a message such as shop.Zero, shop.Order",
        ),
        ({"id": pa.int64()}, {**ORDER, "protobufDescriptors": "/no/such"}, r"'/no/such': .*No such file"),
        ({"id": pa.int64()}, {**ORDER, "protobufDescriptors": "base64:?"}, "is no descriptor set"),
        ({"id": pa.int64()}, {**ORDER, "protobufDescriptors": "base64:AAAA"}, "is no descriptor set"),
        ({"a": pa.int64()}, ORDER, "column 'a' is not in message shop.Order, which has id, note"),
        (
            {"items": pa.string()},
            ORDER,
            r"column 'items' is string: expected an array, as shop.Order.items is",
        ),
        ({"tags": pa.string()}, ORDER, "column 'tags' is string: expected a map"),
        ({"first": pa.string()}, ORDER, "column 'first' is string: expected a struct"),
        ({"id": pa.int64()}, {**ORDER, "avroSchema": "{}"}, "setting 'avroSchema' of value format protobuf"),
    ],
)
def test_settings_that_will_not_do_are_named(schema: Any, chosen: dict[str, str], reason: str) -> None:
    with pytest.raises(BadSetting, match=reason):
        decoder("protobuf", pa.schema(schema), chosen)


def test_a_set_without_what_it_imports_says_so() -> None:
    alone = _pb.FileDescriptorSet(file=[SET.file[0]])
    text = "base64:" + base64.b64encode(alone.SerializeToString()).decode()

    with pytest.raises(BadSetting, match=r"item\.proto.*`protoc --include_imports` writes all that it needs"):
        protobuf_columns({**ORDER, "protobufDescriptors": text})


def test_a_message_within_itself_has_no_columns_but_those_that_are_asked_for() -> None:
    node = {**ORDER, "protobufMessage": "shop.Node"}
    with pytest.raises(BadSetting, match=r"message shop\.Node has itself within"):
        protobuf_columns(node)

    value = message_class("shop.Node")(n=4).SerializeToString()
    decoded = decoder("protobuf", pa.schema({"n": pa.int32()}), node).decode(pa.array([value]))
    assert decoded.columns.to_pylist() == [{"n": 4}]


def test_settings_travel_with_the_file_in_them(tmp_path: Path) -> None:
    path = tmp_path / "shop.desc"
    path.write_bytes(SET.SerializeToString())
    given = {"protobufdescriptors": str(path), "protobufmessage": "shop.Order"}

    carried = portable("protobuf", given)
    path.unlink()

    assert protobuf_columns(carried) == protobuf_columns(ORDER)
    assert portable("json", {"timeZone": "UTC"}) == {"timeZone": "UTC"}
    with pytest.raises(BadSetting, match="expected a file that"):
        portable("protobuf", given)


@given(st.lists(st.binary(max_size=40), max_size=10))
@settings(deadline=None, max_examples=200)
def test_any_bytes_are_a_row_or_an_error(values: list[bytes]) -> None:
    found = decoder("protobuf", protobuf_columns(ORDER), ORDER)

    decoded = found.decode(pa.array([an_order(), *values, an_order()], pa.binary()))

    assert decoded.columns.to_pylist()[0] == decoded.columns.to_pylist()[-1] == ROW
    assert len(decoded.errors) == len(values) + 2


def test_what_to_install_is_said_if_protobuf_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("everlog.values.protobuf")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "google.protobuf.descriptor", None)

    with pytest.raises(
        BadSetting, match=r"value format protobuf needs protobuf: pip install 'everlog\[spark\]'"
    ):
        protobuf_columns(ORDER)
