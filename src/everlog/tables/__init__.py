"""Topics kept as lake tables: Parquet, Iceberg and Delta, appended to or kept as the current state (D2, D3).

Arrow batches and offset ranges come in, a table's commits come out; who reads the topic, Spark or a loop of
ours, is not known here. The batch id and the offset range are in each commit of the table.
What always holds: a batch is in the table once, or not at all.

    spec.py, ddl.py, schema.py    what a table is          declared.py   where declarations are kept
    location.py, directory.py     where it is, and the files that are there
    rows.py, debezium.py          records to rows           upsert.py     which change of a key counts
    table.py                      the face: stage, commit, read, upkeep
    committing.py, upkeep.py      staged rows to a change of the table, many files to few
    store.py and *_store.py       what a format must be able to do, and the three that are
    letters.py, batch.py          bad records out, then the batch in
    materialize.py, back.py       a topic to a table without Spark, a table to a topic
"""
