"""The source: options, offsets, what a trigger reads, and reading it as Arrow batches (D1).

Spark's planner and workers call it. It commits nothing that matters to what is read: the offsets of a query
are Spark's, in its checkpoint, in the same JSON as that of Spark's Kafka connector.
What always holds: an offset range gives the same rows each time it is read, or an error.
"""
