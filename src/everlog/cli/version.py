"""`everlog version`: which Everlog this is, and on what it runs."""

import platform

from everlog import __version__
from everlog.cli.command import command
from everlog.cli.output import Fields, Report

EXAMPLES = """
$ everlog version
$ everlog version --json
"""


@command("version", examples=EXAMPLES)
def version() -> Report:
    """Print the version of Everlog and of the Python it runs on."""
    facts = {
        "everlog": __version__,
        "python": platform.python_version(),
        "platform": platform.system().lower(),
    }
    return Report(facts, [Fields(list(facts.items()))])
