"""Which partition of an internal topic holds a group or a transactional id."""

_BITS_32 = 0xFFFFFFFF
_SIGN = 1 << 31

OFFSETS_TOPIC = "__consumer_offsets"
TXN_TOPIC = "__transaction_state"


def partition_for(name: str, count: int) -> int:
    """The partition of `name` among `count`, as Java computes it: the absolute value of the string's hash."""
    code = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        code = (31 * code + (units[at] << 8 | units[at + 1])) & _BITS_32
    if code & _SIGN:
        # The smallest of all ints has no absolute value; it counts as 0.
        code = 0 if code == _SIGN else _BITS_32 + 1 - code
    return code % count
