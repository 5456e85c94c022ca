"""The resolver: which Archives it asks, what it makes of their answers, where it leads to ([R] 6)."""
