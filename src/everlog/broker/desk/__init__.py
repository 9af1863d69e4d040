"""What a controller serves: the quorum's own requests, those of brokers, and commands of clients (R8).

Requests come in on a controller listener, from the broker of the same node, or in an Envelope from the broker
that a client has asked. Handlers here never wait; the controller answers once a decision is committed.
"""
