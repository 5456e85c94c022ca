"""Benchmarks; ``python -m benchmarks`` runs those of the documentation's page of figures."""

import sys
from pathlib import Path

# the helpers of the tests
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
