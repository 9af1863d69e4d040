"""The command line: one module a command, loaded when it is called.

Commands ask the client library or the node for something and return data; `output` turns it into text
or JSON. Nothing here decides how the log or the protocol works. The entry point is `main.main`.
What always holds: results go to stdout, everything else to stderr, and the exit code is 0, 1 or 2.
"""
