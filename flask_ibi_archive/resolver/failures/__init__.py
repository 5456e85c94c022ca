"""Persistent URLs that failed: counted, compared with known identifiers, and reported."""
