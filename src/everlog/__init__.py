"""Everlog: a replicated, append-only commit log that speaks the Kafka wire protocol.

The rooms below and the direction in which they may import each other are in ARCHITECTURE.md.
This module stays empty of imports, so that `import everlog` costs nothing until something is used.
"""

__version__ = "0.1.0"
