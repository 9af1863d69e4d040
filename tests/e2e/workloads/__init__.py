"""Workloads against real processes that are killed, stopped and paused, recorded and checked as histories.

The clients are confluent-kafka and the scripts of `everlog.sim.workloads` over sockets; the broker is Everlog
or, to tell its faults from the harness's own, Apache Kafka.
"""
