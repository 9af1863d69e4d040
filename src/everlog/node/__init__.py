"""Builds one process from the rooms below it, given its ports.

Here the broker meets the edge: log directories are locked and opened, the quorum is led, the broker is
registered, the sockets are bound, and all of it is taken down in the opposite order. The command line calls
`run_node`; the simulator builds the same node on its own ports.
"""
