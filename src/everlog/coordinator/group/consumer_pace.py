"""How often members of consumer groups are told to send heartbeats.

A member learns of a rebalance only from the answer to its own heartbeat, so the interval is what a newcomer
waits for until the others begin to make room for it. Few members are therefore told to come often, and many
only as often as the broker can bear: the interval grows with their number, up to the one that is set.
"""

IDLE_MS = 300
"""The shortest interval of a member that has all that it is to have."""

WAITING_MS = 50
"""The shortest interval of a member that waits for partitions which others are giving up."""


def heartbeat_interval_ms(members: int, max_rate: int, longest_ms: int, *, waits: bool) -> int:
    """The interval for one of `members` on this broker, of whom at most `max_rate` a second may come.

    Each is told at least `members / max_rate` seconds, so all together keep to that rate; where even the
    longest interval is shorter than that, it is what holds. A rate of 0 leaves it at the longest. Intervals
    are multiples of the shortest: not every member that comes should change them, which clients log.
    """
    if max_rate == 0:
        return longest_ms
    shortest_ms = WAITING_MS if waits else IDLE_MS
    multiple = max(1, -(-members * 1000 // (max_rate * shortest_ms)))
    return min(longest_ms, multiple * shortest_ms)
