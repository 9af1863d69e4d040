"""Lets `python -m everlog.cli` stand for the installed `everlog`."""

from everlog.cli.main import main

main()
