"""Quotas of clients: how much users, client ids and addresses may ask of brokers (KIP-546)."""

from collections.abc import Mapping
from dataclasses import dataclass

from everlog.client.core.admin.outcomes import outcome
from everlog.client.core.errors import refusal
from everlog.model.errors import ErrorCode, Refused
from everlog.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
)
from everlog.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

DEFAULT = "<default>"
"""Stands for whoever has no quota of its own."""

ANY = "<any>"
"""In a filter: every name, and the default."""

_EXACT, _DEFAULT, _ANY = 0, 1, 2


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """Whom a quota is for: a user, a client id, both together, or an address.

    >>> QuotaEntity(user="alice"), QuotaEntity(user=DEFAULT, client_id="loader"), QuotaEntity(ip="10.0.0.7")
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def parts(self) -> dict[str, str]:
        """What is given, by the wire's name for it."""
        named = {"user": self.user, "client-id": self.client_id, "ip": self.ip}
        return {kind: name for kind, name in named.items() if name is not None}

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name!r}" for kind, name in self.parts.items()) or "nobody"


def describe_quotas_request(wanted: QuotaEntity, *, strict: bool) -> DescribeClientQuotasRequest:
    """Ask for the quotas of entities that match; `strict` leaves out those with other parts as well."""
    components: list[ComponentData] = []
    for kind, name in wanted.parts.items():
        match_type = {DEFAULT: _DEFAULT, ANY: _ANY}.get(name, _EXACT)
        match = name if match_type == _EXACT else None
        components.append(ComponentData(entity_type=kind, match_type=match_type, match=match))
    return DescribeClientQuotasRequest(components=components, strict=strict)


def read_quotas(response: DescribeClientQuotasResponse) -> dict[QuotaEntity, dict[str, float]]:
    """The quotas of each entity by key, such as `producer_byte_rate`."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, response.error_message, "client quotas")
    return {
        _entity({part.entity_type: part.entity_name for part in entry.entity}): {
            value.key: value.value for value in entry.values
        }
        for entry in response.entries or ()
    }


def alter_quotas_request(
    wanted: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool
) -> AlterClientQuotasRequest:
    """Ask for quotas to be set, or with None taken away."""
    entries = [
        RequestEntryData(
            entity=[
                EntityData(entity_type=kind, entity_name=None if name == DEFAULT else name)
                for kind, name in entity.parts.items()
            ],
            ops=[
                OpData(key=key, value=0.0 if value is None else float(value), remove=value is None)
                for key, value in quotas.items()
            ],
        )
        for entity, quotas in wanted.items()
    ]
    return AlterClientQuotasRequest(entries=entries, validate_only=validate_only)


def read_quotas_altered(response: AlterClientQuotasResponse) -> dict[QuotaEntity, Refused | None]:
    """What became of each entity."""
    altered: dict[QuotaEntity, Refused | None] = {}
    for entry in response.entries:
        entity = _entity({part.entity_type: part.entity_name for part in entry.entity})
        altered[entity] = outcome(None, entry.error_code, entry.error_message, f"quotas of {entity}")
    return altered


def _entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    named = {kind: DEFAULT if name is None else name for kind, name in parts.items()}
    return QuotaEntity(named.get("user"), named.get("client-id"), named.get("ip"))
