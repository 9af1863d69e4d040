"""Commands to metadata records: what is asked of the cluster, decided, committed, and only then applied.

A command decides against a `Standing` and returns records and a reply; it changes nothing. `Controller`
puts the records through the quorum, applies them and lets the reply go. The rules of each kind of command
are in the module of its name. Brokers see the result as images and never write metadata themselves.
"""

from everlog.controller.controller import Controller
from everlog.controller.decisions import Command, Decision, Refusal, Standing

__all__ = ["Command", "Controller", "Decision", "Refusal", "Standing"]
