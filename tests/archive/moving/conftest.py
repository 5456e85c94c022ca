"""Two Archives on two servers, in databases of different kinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.moves import Place, open_place


@pytest.fixture(params=["sqlite to postgresql", "postgresql to sqlite"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Place, Place]]:
    """The giver and the taker, in databases of different kinds."""
    first, second = request.param.split(" to ")
    with (
        open_place(first, tmp_path / "giver", 1) as giver,
        open_place(second, tmp_path / "taker", 2) as taker,
    ):
        yield giver, taker
