"""Which replica a consumer had better read from: one in its own rack, if that has what it wants (KIP-392)."""

from typing import TYPE_CHECKING, Final

from everlog.broker.replicas import Replica
from everlog.metadata.image import BrokerImage
from everlog.model.ids import BrokerId, Offset
from everlog.model.settings import broker_table as keys

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def selects_by_rack(broker: "Broker") -> bool:
    """Whether consumers are sent to replicas in their racks."""
    return broker.settings[keys.REPLICA_SELECTOR_CLASS] == RACK_AWARE


def preferred_replica(
    broker: "Broker", replica: Replica, offset: Offset, rack: str, listener_name: str
) -> int | None:
    """The follower that a consumer should read from at `offset`; None if it should read here.

    Only one in sync that has the offset is named, and nobody if the leader itself is in that rack.
    """
    leading = replica.leading
    if leading is None or _rack_of(broker, broker.node_id) == rack:
        return None
    best: tuple[Offset, int] | None = None
    for one in sorted(leading.isr):
        end = leading.end_of(one)
        followed = replica.followers.get(one)
        if end is None or followed is None or not followed.log_start <= offset <= end:
            continue
        known = broker.image.brokers.get(one)
        if known is None or not _is_reachable(known, rack, listener_name):
            continue
        if best is None or end > best[0]:
            best = (end, one)
    return None if best is None else best[1]


def _rack_of(broker: "Broker", number: BrokerId) -> str | None:
    known = broker.image.brokers.get(number)
    return None if known is None else known.rack


def _is_reachable(broker: BrokerImage, rack: str, listener_name: str) -> bool:
    return broker.active and broker.rack == rack and broker.endpoint(listener_name) is not None
