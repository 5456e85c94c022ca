"""The departmental app after it has embedded an Archive."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
DIFF = (HERE / "embedding.diff").read_text(encoding="utf-8")


@pytest.mark.one_database
def test_eighteen_lines_embed_an_archive() -> None:
    added = [line for line in DIFF.splitlines() if line[:1] == "+" and line[:3] != "+++"]
    assert len([line for line in added if line != "+"]) <= 18
