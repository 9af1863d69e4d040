"""The messages of the protocol as classes, one module an API or record.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
Fields bear Kafka's names in snake_case and Kafka's defaults; how they look on the wire is not known here.
Handlers, clients and logs make and read them; `wire.codec` turns them into bytes.
A class has the fields of all versions; a field that a version lacks is at its default after decoding.
"""
