"""The broker's only room that waits: sockets, disks, clocks, threads and chance as they really are.

No decision about records, topics or groups is made here; those live in the rooms below, which reach this
one through `everlog.ports` only. `node` builds these parts and hands them to the cores. What is here is
thin, and every wait in it has a limit, every queue a bound, every descriptor an owner.
"""
