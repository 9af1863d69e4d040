"""Topics as Spark DataFrames: source, sink and table sink, on the Python Data Source API (D1, D2).

Options and columns are those of Spark's own Kafka connector; docs/design/0009 says how delivery works. Spark
calls this room in three kinds of process: a planner on the driver, workers on executors, and a committer on
the driver; they share nothing but what is pickled and what is in the log. Whatever decides is plain Python
below `source` and `sink` and does not import pyspark; the classes that Spark calls are thin.
What always holds: a batch of a query counts once, however often parts of it are run.
"""
