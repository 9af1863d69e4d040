"""What a member of a group decides, by both protocols, and the assignors of the older one (C2-C4).

No I/O happens here: `drive.group` has the conversations with the coordinator.
What always holds: what is revoked is let go before anybody is told that it is.
"""
