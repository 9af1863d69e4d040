"""What a misspelled option is told; no pyspark, as options are read where there is none.

Options that look like nothing of ours are left alone, as Spark's connector does: they may be Spark's own.
"""

import difflib
from collections.abc import Iterable

from everlog.model.errors import ConfigError


def refuse_misspelled(
    given: Iterable[str], names: Iterable[str], prefixes: tuple[str, ...], *, likeness: float = 0.85
) -> None:
    """Refuse an option whose name is nearly one of `names`; those that begin with a prefix are not judged."""
    known = {name.lower(): name for name in names}
    for name in given:
        low = name.lower()
        if low in known or low.startswith(prefixes):
            continue
        if low == "bootstrap.servers":
            raise ConfigError("unknown option bootstrap.servers: did you mean kafka.bootstrap.servers?")
        if near := difflib.get_close_matches(low, known, n=1, cutoff=likeness):
            raise ConfigError(f"unknown option {name}: did you mean {known[near[0]]}?")
