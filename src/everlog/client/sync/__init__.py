"""The blocking face of the client: Producer, Consumer and Admin for programs without a loop.

Each runs the asyncio one on a thread of its own (`portal`); only the hot calls are made here once more.
What is decided lives in `core`, what waits for brokers in `drive`.
What always holds: no call waits longer than its time-out.
"""
