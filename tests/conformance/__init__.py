"""Other people's Kafka clients, unmodified, against a real broker on loopback.

`scenarios` says what is written, `clients` how each client writes, reads and administers it, `raw` looks at
the bytes that came out, and the checks in the tests are the same for all. The same tests pass against Apache
Kafka (`pytest tests/conformance --broker apache`), which is what makes them a measure.
"""
