"""The resolution of persistent URLs, without databases, clocks or sockets ([R] 6, 8)."""
