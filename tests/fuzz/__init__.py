"""Fuzzing of everything that reads bytes which others wrote: peers, and the disk (O5).

`targets` names what is fuzzed, `run` fuzzes it with atheris, `test_corpus_replay` replays the corpus of
past inputs without it. An input is good if the target returns; any exception that leaves it is a find.
"""
