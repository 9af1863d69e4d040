"""The parser of the schema notation takes what the notation says and refuses all else."""

import pytest

from everlog.wire.schema import SchemaError, Versions, parse, split

HEAD = "PingRequest: request 3, versions 0-5, flexible 2+, on broker"


def test_a_head_says_what_the_message_is() -> None:
    schema = parse(
        "PingRequest: request 3, versions 1-5, flexible 2+, last unstable, on broker and controller"
    )

    assert (schema.name, schema.kind, schema.key) == ("PingRequest", "request", 3)
    assert schema.versions == Versions(1, 5)
    assert (schema.flexible, schema.last_unstable) == (2, True)
    assert schema.listeners == ("broker", "controller")
    assert not schema.is_flexible(1)
    assert schema.is_flexible(2)


def test_a_field_says_where_it_is_and_what_it_holds_when_it_is_not() -> None:
    schema = parse(
        f"{HEAD}\n"
        "    plain: int32\n"
        "    newer: int64 3+ ignorable = -1\n"
        "    middle: string?4 2-4 = null\n"
        "    late: [uuid]? 5 tag 7"
    )
    plain, newer, middle, late = schema.body.fields

    assert (plain.versions, plain.default, plain.ignorable) == (Versions(0, 5), "0", False)
    assert (newer.versions, newer.default, newer.ignorable) == (Versions(3, 5), "-1", True)
    assert (middle.versions, middle.nullable, middle.default) == (Versions(2, 4), Versions(4, 4), "None")
    assert (late.array, late.type, late.nullable, late.tag) == (True, "uuid", Versions(5, 5), 7)
    assert middle.may_be_null(4)
    assert not middle.may_be_null(3)


def test_a_struct_is_spelled_out_once_and_named_afterwards() -> None:
    schema = parse(
        f"{HEAD}\n    first: [Place]\n        host: string\n        port: int32\n    second: Place"
    )
    first, second = schema.body.fields

    assert first.struct == second.struct
    assert [struct.name for struct in schema.structs] == ["Place"]
    assert (first.default, second.default) == ("[]", "Place()")


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("PingRequest: request, versions 0-5", "head"),
        ("PingRequest: data 3, versions 0-5", "head"),
        ("PingRequest: question 3, versions 0-5", "head"),
        ("pingRequest: request 3, versions 0-5", "head"),
        (f"{HEAD} ", "head"),
        ("PingRequest: request 3, versions 5-4", "versions"),
        (f"{HEAD}\n   narrow: int32", "place of a field"),
        (f"{HEAD}\n    deep: int32\n        deeper: int32", "not a field|place of a field"),
        (f"{HEAD}\n    text: string # a comment", "not a field"),
        (f"{HEAD}\n    number: int128", "no primitive"),
        (f"{HEAD}\n    place: Place", "spelled out"),
        (f"{HEAD}\n    a: Place\n        x: int8\n    b: Place\n        x: int8", "spelled out"),
        (f"{HEAD}\n    a: [Place]\n        b: [Place]", "Place holds itself"),
        (f"{HEAD}\n    a: Place\n        b: [Town]\n            c: Place?", "Place holds itself"),
        (f"{HEAD}\n    again: [PingRequest]", "PingRequest holds itself"),
        (f"{HEAD}\n    twice: int8\n    twice: int8", "twice"),
        (f"{HEAD}\n    a: int8 2+ tag 0\n    b: int8 2+ tag 0", "twice"),
        (f"{HEAD}\n    a: int8 1+ tag 0", "flexible versions only"),
        (f"{HEAD}\n    a: int8 2+ tag 128", "below 128"),
        (f"{HEAD}\n    a: int8 4-7", "not within"),
        (f"{HEAD}\n    a: string?2+ 3+", "not within"),
        (f"{HEAD}\n    a: int8?", "cannot be null"),
        (f"{HEAD}\n    a: int8 = 128", "no default"),
        (f"{HEAD}\n    a: uint16 = -1", "no default"),
        (f"{HEAD}\n    a: int8 = 0", "no default"),
        (f"{HEAD}\n    a: string = null", "no default"),
        (f"{HEAD}\n    a: [int8] = 1", "no default"),
        (f"{HEAD}\n    class: int8", "keyword"),
    ],
)
def test_what_is_not_the_notation_is_refused(block: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        parse(block)


def test_a_family_names_each_message_once() -> None:
    assert list(split("\nA: data, versions 0\n\nB: data, versions 0\n")) == ["A", "B"]
    with pytest.raises(SchemaError, match="A stands twice"):
        split("A: data, versions 0\n\nA: data, versions 1")
