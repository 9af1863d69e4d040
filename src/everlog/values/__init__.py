"""Values as typed columns: JSON, strings, Avro and more to the columns of a schema, bad ones kept aside.

Arrow in, Arrow out; it knows neither Spark nor brokers, and the tables use it as the source does.
What always holds: a record that cannot be read costs its own row only, and its bytes are kept.
"""
