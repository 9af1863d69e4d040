"""The operations that access control knows, and the bit fields in which brokers tell who may do what."""

from enum import IntEnum

NOT_ASKED = -(2**31)
"""What stands in the field unless the request asked for it (KIP-430)."""


class AclOperation(IntEnum):
    """What may be allowed or denied, by its number on the wire; ANY only in filters."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


def authorized_operations(bits: int) -> frozenset[AclOperation] | None:
    """The operations in a bit field, where the bit of an operation is its number; None if not asked for."""
    if bits == NOT_ASKED:
        return None
    return frozenset(operation for operation in AclOperation if bits >> operation & 1)
