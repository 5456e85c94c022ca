"""Readers of works without identifiers: tables, reference managers, JSON Lines.

Each reader yields an :class:`~.entries.Entry` for each row or entry of a file: the JSON object of a
record without identifiers.
"""
