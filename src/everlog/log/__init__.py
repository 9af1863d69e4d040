"""One partition's bytes on disk: segments, their indexes, producer state, epochs, recovery.

No socket, no request and no role lives here: a log does not know whether it leads or follows.
The broker appends and reads through `PartitionLog`, and keeps all logs of a disk in a `LogDirectory`.
Files are in Kafka's formats; an index may lag its log and never leads it; nothing unchecked is handed out.
"""
