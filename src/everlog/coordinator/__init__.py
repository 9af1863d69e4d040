"""The two coordinators, of groups and of transactions, as state that records make.

Here lives what a group or a transaction is, what may become of it, and what is written down about that in
`__consumer_offsets` and `__transaction_state`. Requests, connections and the log itself do not: the broker's
handlers call in, and a `Journal` stands for the partition. State that must outlive us is changed by `apply`
alone, live and in replay alike.
"""
