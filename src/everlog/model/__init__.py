"""The words of the domain: ids, topics, error codes, settings.

Nothing here does anything; it names things and says which values are legal.
Every other room imports from here. This room imports nothing of ours.
"""
