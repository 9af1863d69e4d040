"""The blocking face of the client: Producer, Consumer and Admin for programs without a loop.

Each runs the asyncio one on a thread of its own (`portal`); only the hot calls are made here once more.
The older parts beside them wait on one socket at a time, for the commands that still use them.
What is decided lives in `core`. What always holds: no call waits longer than its time-out.
"""
