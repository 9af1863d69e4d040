"""Inputs in the corpus that still break their target, each with what happens; a fix deletes its line here."""

KNOWN_FINDS: dict[str, str] = {
    "clean_shutdown/find-infinity": "an OverflowError leaves read_clean_shutdown: int() of an infinite float",
    "clean_shutdown/find-deep": "a RecursionError leaves read_clean_shutdown: JSON nested deeply",
    "quorum_state/find-deep": "a RecursionError leaves decode_state: JSON nested deeply",
    "leader_epochs/find-digits": "a ValueError leaves log.checkpoint: a number of over 4,300 digits",
    "offset_checkpoint/find-digits": "a ValueError leaves log.checkpoint: a number of over 4,300 digits",
}
