"""Flushes with many rows: the number of statements does not depend on the number of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event, select
from support.host_app import Host

CHANGES: dict[str, Callable[[Host, Any], object]] = {
    "edit": lambda host, row: setattr(row, "title", f"{row.title} again"),
    "edit with a file": lambda host, row: setattr(row, "pdf", host.write(f"{row.id}.pdf", "rain")),
    "no change of the item": lambda host, row: setattr(row, "views", 7),
    "withdraw": lambda host, row: setattr(row, "state", "Deleted"),
    "delete": lambda host, row: host.session.delete(row),
}


@pytest.fixture
def host(new_host: Callable[..., Host]) -> Host:
    """A host with a plain model."""
    return new_host()


def add_rows(host: Host, count: int) -> list[Any]:
    rows = [host.Thesis(title=f"thesis {number}", language="en") for number in range(count)]
    host.session.add_all(rows)
    host.session.commit()
    return [row for row in host.session.scalars(select(host.Thesis)) if row in rows]


@pytest.mark.parametrize("change", CHANGES)
def test_many_rows_need_as_many_statements_as_few(host: Host, change: str) -> None:
    statements: list[str] = []

    def count(number: int) -> int:
        rows = add_rows(host, number)
        for row in rows:
            CHANGES[change](host, row)
        statements.clear()
        host.session.commit()
        return len(statements)

    event.listen(
        host.engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2])
    )
    few = count(25)
    assert count(50) == few, "\n".join(statements)


def test_a_flush_does_not_read_the_rows_of_the_host_again(host: Host) -> None:
    statements: list[str] = []
    [row] = add_rows(host, 1)
    row.title = "On snow"
    event.listen(
        host.engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2])
    )
    host.session.commit()
    [of_host] = [one for one in statements if "host_thesis" in one]
    assert of_host.startswith("UPDATE host_thesis")
