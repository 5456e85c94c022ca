"""Registration of an Archive with a resolver ([R] 5)."""
