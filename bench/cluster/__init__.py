"""Three brokers beside three of Apache Kafka: replication 3, acks=all, min.insync.replicas 2.

What lives here: the clusters as processes, the loads that only a cluster can be put under, and the failover.
What does not: loaders, samples, the table and the chart, which are those of `bench`. `python -m
bench.cluster` runs it. Both clusters are alive meanwhile, and only the one that is measured works.
"""
