"""Mirroring a topic to another cluster: records as they are, and where each of them went (R11).

Slices of a partition come in as Arrow batches; each is written to the other cluster in one transaction with a
note of which offset became which. Who reads the slices, Spark or a loop, is not known here. Notes are turned
back into answers for groups that move.
What always holds: a record of the source is once in the target, and a translated offset skips none.
"""
