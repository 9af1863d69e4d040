"""Groups: who is a member, who reads which partition, and how far a group has come.

Here live both group protocols and the committed offsets. Requests and answers as they look on the wire do
not, nor does the log: `Machine` writes the records. The broker's handlers call `GroupShard`, one for each
partition of `__consumer_offsets`. A group has one type at a time, and its id is in one shard only.
"""
