"""Other nodes as this one reaches them: connections that are made when needed, requests, answers, time-outs.

No socket lives here: connections come through `ports.links`, and what requests mean is their callers'
business. The quorum, the broker and the desk call it. Whatever is asked is told of exactly once, as an answer
or as `Unreachable`, and never before the call that asked has returned.
"""
