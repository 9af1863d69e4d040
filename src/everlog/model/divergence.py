"""Where two logs part ways, by leader epochs: the one rule of followers, of partitions and of the quorum."""

from everlog.model.ids import Offset


def where_to_cut(diverging: tuple[int, Offset], own: tuple[int, Offset]) -> Offset:
    """Where a follower cuts its log, given what a leader has said about it.

    `diverging` is the newest epoch up to the follower's last that the leader has, and where it ends there;
    `own` the newest epoch up to that one which the follower has, and where it ends here. Where they are not
    the same epoch, the next fetch asks about an earlier one (KIP-279).
    """
    epoch, leaders_end = diverging
    own_epoch, own_end = own
    return min(own_end, leaders_end) if own_epoch == epoch else own_end
