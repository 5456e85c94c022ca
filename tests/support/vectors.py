"""Reads the examples of the documents, which are JSON files in ``tests/vectors/``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "vectors"


def load(name: str) -> Any:
    """Return the parsed content of ``tests/vectors/<name>``."""
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))
