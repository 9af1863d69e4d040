"""Values as typed columns: JSON, Avro, Protobuf, text and more by a schema, bad ones kept aside.

Arrow in, Arrow out; it knows neither Spark nor brokers, and the tables use it as the source does.
What always holds: a record that cannot be read costs its own row only, and says why.
"""

from everlog.values.decoded import BadSetting, Decoded, Decoder, Encoder
from everlog.values.formats import (
    FORMATS,
    SETTINGS,
    avro_columns,
    decoder,
    encoder,
    portable,
    protobuf_columns,
)

__all__ = [
    "FORMATS",
    "SETTINGS",
    "BadSetting",
    "Decoded",
    "Decoder",
    "Encoder",
    "avro_columns",
    "decoder",
    "encoder",
    "portable",
    "protobuf_columns",
]
