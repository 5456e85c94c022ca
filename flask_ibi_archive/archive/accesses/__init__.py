"""Accesses: URL keys, acknowledgments, robots and second clicks, statistics, purging."""
