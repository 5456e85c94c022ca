"""Keeps the items of an Archive consistent with the rows of the host's own models."""
