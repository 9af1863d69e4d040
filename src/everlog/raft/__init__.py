"""Consensus on one log: who leads, in which epoch, and up to where it is committed.

What the records say is not known here; `controller` proposes them and applies them once committed.
The log itself and the thread that syncs it come in through `log.QuorumLog`; `store` keeps what a vote must
outlive. An entry is committed once a majority of the voters has it on disk, and never taken back.
"""
