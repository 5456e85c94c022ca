"""Benchmarks; ``python -m tests.benchmarks`` runs those of the documentation's page of figures."""
