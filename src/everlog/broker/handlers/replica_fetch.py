"""Fetch, versions 15 to 18, of a broker that follows partitions led here."""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.model.errors import ErrorCode
from everlog.wire.hot.fetch import FetchData, FetchResult, Topic, write_fetch_answer

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


def handle(broker: "Broker", request: FetchData, exchange: Exchange) -> None:
    """Answer what has changed for the follower, or wait until something has."""
    # Only a broker of the cluster may pull as a replica, and a single node has no other.
    # A client that could would move the high watermark (CVE-2018-1288).
    _refuse(exchange, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, request)


def _refuse(exchange: Exchange, code: ErrorCode, request: FetchData) -> None:
    topics: dict[Topic, list[FetchResult]] = {}
    for wanted in request.partitions:
        topics.setdefault(wanted.topic, []).append(FetchResult(wanted.partition, code))
    exchange.answer_parts(
        write_fetch_answer(exchange.api_version, exchange.correlation_id, code, 0, list(topics.items()))
    )
