"""The blocking face of the client: sockets, time-outs and threads' worth of patience, and no decisions.

Everything here waits on one socket at a time, up to a deadline. The command line uses it.
What is decided lives in `core`. What always holds: when a call has returned or raised, nothing of it
is still under way, except what `BatchWriter.send` has buffered.
"""
