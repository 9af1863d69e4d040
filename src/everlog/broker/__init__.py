"""One broker's behaviour: requests in, answers out, and the partitions it holds in between.

Nothing here waits, and nothing here opens a socket or a file but through a port. The edge feeds frames to
a `Session` and sends what comes back; the simulator does the same. Controllers and coordinators are below,
the process that joins broker and edge is `node`.
"""
