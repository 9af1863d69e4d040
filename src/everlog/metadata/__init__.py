"""The cluster as a value: brokers, topics, partitions, configs, features, as the metadata log has them.

`image` is that value and never changes; `delta` makes the next one from records; `records` is how records
lie in the metadata log. Nobody decides anything here: the controller does, and brokers read the result.
The same records always give the same image, live and in replay.
"""
