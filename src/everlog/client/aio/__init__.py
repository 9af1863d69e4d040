"""The asyncio face of the client: Producer, Consumer and Admin for programs that have a loop.

It joins the cores and their driver and is the only implementation; `sync` runs the same on a thread.
What always holds: an object belongs to the loop it was started on, and no call waits without a time-out.
"""
