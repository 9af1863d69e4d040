"""Replication of partitions: what a leader counts and proposes, what a follower fetches and cuts (R1-R7).

Events come in, effects go out; logs, sockets and the controller are not known here. `broker` owns a
`LeaderState` for each partition that it leads and a `FollowerState` for each that it follows.
What always holds: what a leader calls committed is on every replica that may lead next.
"""
