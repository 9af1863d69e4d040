"""The driver of the clients against brokers that misbehave."""
