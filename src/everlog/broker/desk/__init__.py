"""What a controller listener serves: the quorum, brokers that register and beat, and forwarded commands.

Connections and framing are the session's; what is decided is the quorum's and the controller's. Sessions on
controller listeners call it, and those of brokers on the same node. Each request is answered exactly once.
"""
