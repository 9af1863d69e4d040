"""Consensus on one log: who leads, in which epoch, up to where it is committed, and who votes.

What the records say is not known here; `controller` proposes them and applies them once committed. `core`
decides, `member` carries it out on a log that comes in as `member_ports.MemberLog`; `store` keeps what a vote
must outlive. An entry is committed once a majority of the voters has it on disk, and never taken back.
"""
