"""The quorum's words as Kafka's messages: requests and their answers, there and back (KIP-595, 853, 996).

`asking` is for who sends requests and reads answers, `answering` for who reads requests and answers them.
No decision is made here, but for requests that cannot be meant for this replica. `transport` and the desk's
handlers call it. Each request is about one partition: that of the metadata log.
"""

VOTE_VERSION = 2
EPOCH_VERSION = 1
FETCH_VERSION = 18
SNAPSHOT_VERSION = 1
"""What is sent. Older versions are read and answered as well."""

NOBODY = -1
"""The id of a leader that is not known."""

FETCHES_BY_TOPIC_ID = 13
"""The first version of Fetch that names topics by their ids."""
