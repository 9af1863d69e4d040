"""The record batch, format 2: read its header in place, build one, take one apart.

Bytes come in and bytes go out; nothing here knows of partitions, files or sockets.
The broker uses the view and the skim, clients and compaction the reader and the builder.
A batch is never changed but for the fields that lie outside its checksum, or with a new checksum.
"""
