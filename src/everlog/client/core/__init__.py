"""What a client decides: versions, leaders, partitions, batches, positions, retries.

Plain synchronous code without sockets, clocks or threads; time and chance come in as arguments.
The shells `sync` and, later, `aio` send what it asks for and feed back what arrives.
What always holds: an answer that was not asked for changes nothing.
"""
