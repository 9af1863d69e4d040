"""What callers of an Admin choose among, apart from the requests it goes into."""

from enum import IntEnum


class FeatureUpgrade(IntEnum):
    """How a feature's level may move, by its number on the wire."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Election(IntEnum):
    """How a leader is chosen, by its number on the wire."""

    PREFERRED = 0
    """The first replica leads, if it is in sync."""
    UNCLEAN = 1
    """Any replica leads where no one in sync is left; records may be lost."""
