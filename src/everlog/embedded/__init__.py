"""A cluster of one's own, for tests and notebooks: `everlog.Cluster`, and the fixtures of the pytest plugin.

It joins nodes and clients and does what neither does: makes directories, starts and stops brokers, takes
them out of service in the ways that brokers fail. Nothing in the broker or the clients knows of it.
What always holds: leaving a cluster ends every thread, process and temporary directory it made.
"""
