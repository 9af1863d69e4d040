"""The seeded world: disk, clock, chance and threads that do what a seed says, faults included.

Nothing here waits, opens a real file or looks at a real clock; the cores run on it unchanged. Tests use
it, and so does `python -m everlog.sim`. The same seed always gives the same run, to the last byte, and every
part passes the same tests of its port as the real one does.
"""
