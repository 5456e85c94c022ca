"""Register an Archive with a resolver ([R] 5)."""
