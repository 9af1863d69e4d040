"""The formats by name."""

from collections.abc import Mapping

from everlog.values.arrow import Schema
from everlog.values.decoded import BadSetting, Decoder, Encoder
from everlog.values.json_decoder import JsonDecoder
from everlog.values.text import TextDecoder, TextEncoder

SETTINGS: Mapping[str, frozenset[str]] = {
    "json": frozenset({"timeZone"}),
    "string": frozenset(),
}
"""Which settings each format has. Those of others are refused."""
FORMATS = tuple(SETTINGS)


def decoder(format: str, schema: Schema, settings: Mapping[str, str] | None = None) -> Decoder:
    """The decoder of a format for a schema. BadSetting names what of it will not do.

    - `json`: one object a value. `timeZone` is that of times that name none, UTC by default.
    - `string`: one column of text in UTF-8.

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
        case _:
            return TextDecoder(schema)


def encoder(format: str, schema: Schema, settings: Mapping[str, str] | None = None) -> Encoder:
    """The way back: the encoder whose values the decoder of the same arguments reads."""
    _checked(format, schema, settings or {})
    match format:
        case _:
            return TextEncoder(schema)


def _checked(name: str, schema: Schema, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings by the names that the format has; case does not matter, as in Spark's options."""
    if name not in SETTINGS:
        raise BadSetting(f"value format is {name!r}: expected one of {', '.join(FORMATS)}")
    if not len(schema):
        raise BadSetting(f"the schema for value format {name} has no columns")
    known = {setting.lower(): setting for setting in SETTINGS[name]}
    chosen: dict[str, str] = {}
    for setting, value in settings.items():
        if setting.lower() not in known:
            expected = ", ".join(sorted(SETTINGS[name])) or "none"
            raise BadSetting(f"setting {setting!r} of value format {name}: expected {expected}")
        chosen[known[setting.lower()]] = value
    return chosen
