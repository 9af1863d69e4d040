"""The option that writes transcripts anew: `pytest tests/golden --rewrite`; the diff gets read."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--rewrite`."""
    parser.addoption("--rewrite", action="store_true", help="write the golden transcripts anew")
