"""The client library: what talks to a cluster, be it Everlog or Apache Kafka.

`core` decides and does no I/O; `sync` is its blocking face. The command line is its first user.
Nothing here knows of the broker's rooms: a client sees the wire and nothing else.
What always holds: no call waits longer than its time-out, and every error names what it was about.
"""
