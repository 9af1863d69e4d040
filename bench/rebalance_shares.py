"""How the leader of a classic group shares out partitions: in ranges, or so that few of them move."""

from collections.abc import Mapping, Sequence


def range_shares(members: Sequence[str], partitions: int) -> dict[str, list[int]]:
    """Consecutive partitions to each member; the first ones get one more where it does not come out even."""
    each, extra = divmod(partitions, len(members))
    shares: dict[str, list[int]] = {}
    start = 0
    for number, member in enumerate(members):
        end = start + each + (number < extra)
        shares[member] = list(range(start, end))
        start = end
    return shares


def sticky_shares(owned: Mapping[str, set[int]], partitions: int) -> dict[str, list[int]]:
    """Even shares that leave as much as possible where it is.

    A partition that is to move is in nobody's share for as long as its present owner claims it: it is given
    up first, and handed on in the rebalance after that (KIP-429).
    """
    each, extra = divmod(partitions, len(owned))
    by_size = sorted(owned, key=lambda member: (-len(owned[member]), member))
    quota = {member: each + (number < extra) for number, member in enumerate(by_size)}
    shares = {member: sorted(owned[member])[: quota[member]] for member in by_size}
    kept = {partition for share in shares.values() for partition in share}
    claimed = {partition for claim in owned.values() for partition in claim}
    free = [partition for partition in range(partitions) if partition not in kept]
    for member in by_size:
        while free and len(shares[member]) < quota[member]:
            shares[member].append(free.pop())
    for member, share in shares.items():
        shares[member] = [each for each in share if each in owned[member] or each not in claimed]
    return shares
