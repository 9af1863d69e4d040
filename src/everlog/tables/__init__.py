"""Topics kept as lake tables: Parquet, Iceberg and Delta, appended to or kept as the current state (D2, D3).

Arrow batches and offset ranges come in, a table's commits come out; who reads the topic, Spark or a loop of
ours, is not known here. The batch id and the offset range are in each commit of the table.
What always holds: a batch is in the table once, or not at all.
"""
