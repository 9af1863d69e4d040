"""The features of a cluster: what they are called, and the levels of them that we can work at."""

from everlog.metadata.records import METADATA_LEVEL, METADATA_VERSION

GROUP_VERSION = "group.version"
"""Level 1 says that groups may use the consumer protocol (KIP-848)."""

TRANSACTION_VERSION = "transaction.version"
"""Level 2 says that each transaction has an epoch of its own (KIP-890)."""

SUPPORTED_FEATURES: dict[str, tuple[int, int]] = {
    METADATA_VERSION: (METADATA_LEVEL, METADATA_LEVEL),
    GROUP_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
}
"""Feature to the levels that a broker of this version can work at; a new cluster gets the highest of each."""
