"""Everlog and Apache Kafka on one machine, under the same load: `python -m bench`.

What lives here: the loaders, the scenarios that use them, and the table and chart made of what they
measured. What does not: anything that the broker uses, and anything of the broker's but the commands that
start it, so that both brokers are asked in exactly the same words. It is run by hand and by `make bench`. A
figure that leaves this room carries its samples, its spread and the machine it was made on.
"""
