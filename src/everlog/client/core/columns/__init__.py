"""Records as Arrow columns: tables to batches of records, fetched chunks to Arrow batches.

pyarrow is imported when it is used; `records.columns` does the work on bytes.
What always holds: no Python object is made for a record.
"""
