"""Benchmarks: ``python -m benchmarks`` measures the table of ``docs/performance.rst``."""
