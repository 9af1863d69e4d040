"""The sink: a transaction for each task, a decision for each batch, and what a restart does about both (D2).

Tasks write, the driver decides and ends. The rules are in docs/design/0009.
What always holds: transactions of a batch are committed only after its decision is in the log, and all of
them in the end.
"""
