"""Who may do what. There are no ACLs yet, so everybody may do all that a resource knows."""

NOT_ASKED = -2147483648
"""What stands for the operations where the client did not ask for them."""


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12

_TOPIC = _bits(_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
_GROUP = _bits(_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
_CLUSTER = _bits(
    _CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE
)


def topic_operations(*, asked: bool) -> int:
    """The operations on a topic that the client may do, one bit each, if it asked for them."""
    return _TOPIC if asked else NOT_ASKED


def cluster_operations(*, asked: bool) -> int:
    """The operations on the cluster that the client may do, one bit each, if it asked for them."""
    return _CLUSTER if asked else NOT_ASKED


def group_operations(*, asked: bool) -> int:
    """The operations on a group that the client may do, one bit each, if it asked for them."""
    return _GROUP if asked else NOT_ASKED
