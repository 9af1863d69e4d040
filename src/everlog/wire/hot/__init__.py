"""Produce and Fetch by hand: the two messages whose bytes are most of the traffic.

The schema table describes them too, and the tests hold these readers and writers to it byte for byte.
What they add: records stay views of the frame, and a fetch answer is a list of buffers and file ranges.
The broker's produce and fetch handlers call them; nobody else does.
"""
