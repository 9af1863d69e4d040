"""The Kafka protocol on bytes: schemas, message classes, codec and frames; no I/O and no waiting.

What a message means and what to answer is not here but in `broker` and `client`.
Brokers, clients and the controller quorum call `codec`, and so do those who keep messages in a log.
Whatever bytes come in, a decoder returns a message or raises ProtocolError, within the budgets of its caller.
"""
