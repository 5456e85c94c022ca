"""Links between editions that several processes make at the same time."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, import_records

pytestmark = pytest.mark.postgresql

CHAIN = [f"a.br/x/{2000 + number}/01.01.00.00" for number in range(24)]


def test_links_of_one_chain_made_at_once_are_all_stored(
    app: Flask, new_app: Callable[..., Flask]
) -> None:
    archives = [archive_of(app), *(archive_of(new_app()) for _ in range(3))]
    import_records(archives[0], [{"rep": rep} for rep in CHAIN])
    links: list[dict[str, Any]] = [
        {"rep": rep, "next_edition": following} for rep, following in itertools.pairwise(CHAIN)
    ]

    def link(number: int) -> None:
        import_records(archives[number % 4], [links[number]], on_conflict="update")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(link, range(len(links))))
    for rep, following in itertools.pairwise(CHAIN):
        item = archives[0].get(rep)
        assert item is not None
        assert item.record.next_edition == following
