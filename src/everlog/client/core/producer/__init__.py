"""What a producer decides: partitions, batches, memory, sequence numbers, what an answer means (P1-P4).

No I/O happens here and no clock is read: `drive.sender` carries out, `aio.producer` is the face.
What always holds: the records of a partition keep their order, whatever is sent again.
"""
