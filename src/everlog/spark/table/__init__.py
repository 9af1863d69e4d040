"""The table sink: tasks write files, the driver makes one commit of the table for each batch (D2).

What a table is and how it is committed to is in `everlog.tables`; here it is called as Spark calls.
What always holds: a batch whose id is in the table's history is not added again.
"""
