"""One module an API: what the broker does about a request, and what it answers.

A handler takes the broker, the decoded request and its exchange, and answers now or later.
Each docstring lists the versions served and what differs between them. `broker.dispatch` calls them.
One bad item in a request gets its own error and never fails its neighbours.
"""
