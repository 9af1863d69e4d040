"""The APIs: their keys, and for each its versions, first flexible version and listeners.

A small table made from the schemas; no schema is read here, so that a start pays for nothing it does not use.
"""

from typing import Final, NamedTuple

from everlog.wire.api_keys import TABLE, ApiKey

__all__ = ["APIS", "Api", "ApiKey", "api_of"]


class Api(NamedTuple):
    """What is known of an API without its schema."""

    key: ApiKey
    name: str
    """Kafka's name, such as `ListOffsets`; the messages are `ListOffsetsRequest` and `…Response`."""
    module: str
    """The module of `wire.messages` that holds both."""
    min_version: int
    max_version: int
    flexible_from: int
    """The first version with compact lengths and tagged fields; past `max_version` if there is none."""
    last_unstable: bool
    """Whether `max_version` is readable but not to be advertised."""
    on_broker: bool
    on_controller: bool

    @property
    def advertised_min(self) -> int:
        """The lowest version to name in ApiVersions.

        For Produce 0, as librdkafka before 2.11.1 does not compress otherwise (KAFKA-18659); nobody sends it.
        """
        return 0 if self.key == ApiKey.PRODUCE else self.min_version

    @property
    def advertised_max(self) -> int:
        """The highest version to name in ApiVersions."""
        return self.max_version - self.last_unstable

    def has(self, version: int) -> bool:
        """Whether this version can be read and written."""
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields, in the request header too."""
        return version >= self.flexible_from

    def has_flexible_answer_header(self, version: int) -> bool:
        """Whether the answer's header has tagged fields: never for ApiVersions, which is read blindly."""
        return version >= self.flexible_from and self.key != ApiKey.API_VERSIONS


FIRST_OWN_KEY: Final = 10_000
"""From here on keys are not Kafka's: what nodes of this kind ask each other, and tell nobody of."""

APIS: Final[dict[int, Api]] = {
    key: Api(ApiKey(key), name, module, first, last, flexible, unstable, "b" in listeners, "c" in listeners)
    for key, name, module, first, last, flexible, unstable, listeners in TABLE
}


def api_of(key: int) -> Api | None:
    """Return the API with this key, if there is one."""
    return APIS.get(key)
