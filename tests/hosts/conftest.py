"""Fixtures: hosts with models of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.hosts import MODELS, Host


@pytest.fixture
def new_host(uri: str, tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """Makes hosts on the database."""
    made: list[Host] = []

    def make(kind: str = "plain", **config: object) -> Host:
        made.append(Host(uri, tmp_path, kind, **config))
        return made[-1]

    yield make
    for host in made:
        host.close()


@pytest.fixture
def host(new_host: Callable[..., Host]) -> Host:
    """A host with a plain model."""
    return new_host()


@pytest.fixture(params=MODELS)
def any_host(request: pytest.FixtureRequest, new_host: Callable[..., Host]) -> Host:
    """A host with each kind of model in turn."""
    return new_host(request.param)
