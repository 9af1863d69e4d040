"""The formats by name."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from everlog.values.arrow import Schema
from everlog.values.decoded import BadSetting, Decoder, Encoder
from everlog.values.json_decoder import JsonDecoder
from everlog.values.json_encoder import JsonEncoder
from everlog.values.numbers import NUMBERS, BytesDecoder, BytesEncoder, NumberDecoder, NumberEncoder
from everlog.values.text import TextDecoder, TextEncoder

SETTINGS: Mapping[str, frozenset[str]] = {
    "json": frozenset({"timeZone"}),
    "avro": frozenset({"avroSchema", "avroPrefix", "schemaId"}),
    "protobuf": frozenset({"protobufDescriptors", "protobufMessage", "schemaId"}),
    "string": frozenset(),
    "bytes": frozenset(),
    **{name: frozenset[str]() for name in NUMBERS},
}
"""Which settings each format has. Those of others are refused."""
FORMATS = tuple(SETTINGS)


def decoder(format: str, schema: Schema, settings: Mapping[str, str] | None = None) -> Decoder:
    """The decoder of a format for a schema. BadSetting names what of it will not do.

    - `json`: one object a value. `timeZone` is that of times that name none, UTC by default.
    - `avro`: one datum a value. `avroSchema` is the schema it was written with, in JSON; `avroPrefix` says
      whether the number of a schema comes first, as by Confluent's serializers: `auto` (by trying),
      `confluent` or `none`. `avro_columns` tells the columns of an Avro schema.
    - `protobuf`: one message a value, of the type `protobufMessage`. `protobufDescriptors` is a file that
      `protoc --include_imports --descriptor_set_out` wrote. A field that a message does not have is null, or
      what Protobuf says it is then; names of enumerations are text. `protobuf_columns` tells the columns.
    - `string`: one column of text in UTF-8. `bytes`: one column as it is.
    - `short`, `int`, `long`, `float`, `double`: one column of numbers as Kafka's serializers write them.

    ```python
    prices = decoder("json", pa.schema({"sku": pa.string(), "price": pa.decimal128(9, 2)}))
    decoded = prices.decode(pa.array([b'{"sku": "a1", "price": 9.5}', b"oops", None]))
    decoded.columns.field("price")   # [9.50, null, null]
    decoded.first_error()            # record 1: not JSON: Expecting value at character 0: oops
    ```
    """
    chosen = _checked(format, schema, settings or {})
    match format:
        case "json":
            return JsonDecoder(schema, chosen.get("timeZone", "UTC"))
        case "avro":
            with _needing("avro", "fastavro"):
                from everlog.values.avro import AvroDecoder
            return AvroDecoder(schema, chosen)
        case "protobuf":
            with _needing("protobuf", "protobuf"):
                from everlog.values.protobuf import ProtobufDecoder
            return ProtobufDecoder(schema, chosen)
        case "string":
            return TextDecoder(schema)
        case "bytes":
            return BytesDecoder(schema)
        case _:
            return NumberDecoder(NUMBERS[format], schema)


def encoder(format: str, schema: Schema, settings: Mapping[str, str] | None = None) -> Encoder:
    """The way back: the encoder whose values the decoder of the same arguments reads.

    `json` leaves out fields that are null. `avro` and `protobuf` write the prefix of Confluent's serializers
    if `schemaId` is the number of a schema.
    """
    chosen = _checked(format, schema, settings or {})
    match format:
        case "json":
            return JsonEncoder(schema)
        case "avro":
            with _needing("avro", "fastavro"):
                from everlog.values.avro import AvroEncoder
            return AvroEncoder(schema, chosen)
        case "protobuf":
            with _needing("protobuf", "protobuf"):
                from everlog.values.protobuf import ProtobufEncoder
            return ProtobufEncoder(schema, chosen)
        case "string":
            return TextEncoder(schema)
        case "bytes":
            return BytesEncoder(schema)
        case _:
            return NumberEncoder(NUMBERS[format], schema)


def avro_columns(avro_schema: str) -> Schema:
    """The columns of values of an Avro schema in JSON: a record's fields, or one column called `value`.

    Moments are in microseconds, as Spark has them; a union with null is what it is without.
    """
    with _needing("avro", "fastavro"):
        from everlog.values.avro_schemas import avro_columns
    return avro_columns(avro_schema)


def protobuf_columns(settings: Mapping[str, str]) -> Schema:
    """The columns of the message that settings of the format `protobuf` name: its fields, in their order."""
    with _needing("protobuf", "protobuf"):
        from everlog.values.protobuf_schemas import message_columns
    return message_columns(_named("protobuf", settings))


def portable(format: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The same settings for processes on other machines: what they name a file for is in them itself."""
    carried = dict(settings)
    for setting, value in settings.items():
        if format == "protobuf" and setting.lower() == "protobufdescriptors":
            with _needing("protobuf", "protobuf"):
                from everlog.values.protobuf_schemas import inlined
            carried[setting] = inlined(value)
    return carried


@contextmanager
def _needing(format: str, package: str) -> Generator[None]:
    """Say what to install if the one package is missing that only this format needs."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in (package, "google"):
            raise
        raise BadSetting(
            f"value format {format} needs {package}: pip install 'everlog[spark]', or {package}"
        ) from None


def _checked(name: str, schema: Schema, settings: Mapping[str, str]) -> dict[str, str]:
    if name not in SETTINGS:
        raise BadSetting(f"value format is {name!r}: expected one of {', '.join(FORMATS)}")
    if not len(schema):
        raise BadSetting(f"the schema for value format {name} has no columns")
    return _named(name, settings)


def _named(name: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings by the names that the format has; case does not matter, as in Spark's options."""
    known = {setting.lower(): setting for setting in SETTINGS[name]}
    chosen: dict[str, str] = {}
    for setting, value in settings.items():
        if setting.lower() not in known:
            expected = ", ".join(sorted(SETTINGS[name])) or "none"
            raise BadSetting(f"setting {setting!r} of value format {name}: expected {expected}")
        chosen[known[setting.lower()]] = value
    return chosen
