"""The clients for asyncio: `async with everlog.aio.Producer(…) as producer`, and so on.

What they take and return is the same as for the blocking ones, and is in `everlog`.
"""

from everlog.client.aio.admin import Admin
from everlog.client.aio.consumer import Consumer
from everlog.client.aio.dead_letters import DeadLetters
from everlog.client.aio.producer import Producer

__all__ = ["Admin", "Consumer", "DeadLetters", "Producer"]
