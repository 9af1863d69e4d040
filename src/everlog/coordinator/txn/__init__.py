"""Transactions: which producer has which transactional id, and what its transaction has come to.

Here live the states of a transaction, the order of their records, and who is fenced. Markers are handed out
as effects and written by the broker. The broker's handlers call `TxnShard`, one for each partition
of `__transaction_state`. A decision to commit or abort is in the log before the first marker is sent.
"""
