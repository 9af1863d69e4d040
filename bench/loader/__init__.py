"""The load: processes that speak the Kafka protocol with bytes made beforehand, as cheaply as Python can.

What lives here: record batches, request frames, and the loops that send and receive them. What does not:
any choice of what to measure, and any code of Everlog. `bench.scenarios` starts one loader as a child
process for each measurement through `bench.loader.child`. A loader checks every answer for errors and fails
at the first one, so that a figure never counts work that a broker refused.
"""
