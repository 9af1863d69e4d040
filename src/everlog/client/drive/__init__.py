"""The one driver of the client cores: asyncio connections, and the tasks that carry out what cores decide.

Both faces run it: `aio` on the caller's loop, `sync` on a loop in a thread of its own.
No decision is made here that a core could make; nothing here is public.
What always holds: one loop owns all of it, every await has a deadline, every task ends with its owner.
"""
