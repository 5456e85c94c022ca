"""Accesses: acknowledgments, what was delivered, daily counts, purging and statistics."""
