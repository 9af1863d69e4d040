"""Who a producer is to brokers."""

from typing import NamedTuple


class ProducerIdentity(NamedTuple):
    """The id and epoch by which a broker tells a retry from a new batch, and a zombie from its successor."""

    producer_id: int = -1
    producer_epoch: int = -1
