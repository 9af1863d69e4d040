"""Python clients beside each other on one machine: `python -m bench.clients`.

What lives here: the same small programs written with each client, the process that runs one of them, and
the table made of what they took. What does not: brokers, which are those of `bench`. Each sample is a
process of its own, and the clients take turns on the same broker. Every program counts what it has sent or
read; a count that is not right is a failure, not a figure.
"""
