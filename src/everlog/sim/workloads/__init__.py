"""What clients do to a broker while things go wrong: scripts that speak the protocol and record a history.

Each module is one kind of client, written as scripts (`everlog.sim.script`) that wait for nothing themselves.
The simulated world plays them, and so do tests of real processes over sockets. They note what they did and
what is certain about it, never more: whatever was lost on the way is `info`.
"""
