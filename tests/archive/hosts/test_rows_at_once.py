"""Rows without identifiers that two sessions change at the same time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import (
    create_engine,
    delete,
    event,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from support.host_models import Host

from flask_ibi_archive.archive.hosts import adopting
from flask_ibi_archive.errors import IBIError

# On SQLite, two sessions can change a row one after the other only if reading begins no
# transaction. This is so with the transactions of the driver.


@pytest.fixture
def host(new_host: Callable[..., Host], uri: str) -> Host:
    """A host with a plain model."""
    return new_host(engine=create_engine(uri))


def insert_row(host: Host, title: str = "On rain") -> None:
    """Insert a row without identifiers, as it was before the mixin."""
    host.session.execute(insert(host.Thesis).values(title=title, state="Original"))
    host.session.commit()


def assert_agree(host: Host) -> None:
    """Each row has a public item with the same title, and each public item has its row."""
    host.session.commit()
    rows = host.session.scalars(select(host.Thesis)).all()
    items = {item.ibi: item.title for item in host.archive.find(state="Original")}
    assert items == {row.ibi: row.title for row in rows}


def change_elsewhere(host: Host, change: Callable[[Any], object]) -> str:
    """Change the first row in another session, and return its identifier."""
    with Session(host.session.get_bind()) as other:
        row = other.scalars(select(host.Thesis).order_by(host.Thesis.id).limit(1)).one()
        change(row)
        other.commit()
        return str(row.ibi)


@pytest.mark.postgresql
@pytest.mark.parametrize("work", ["change", "refresh", "reference", "delete"])
def test_an_identifier_that_another_session_has_assigned_is_never_replaced(
    host: Host, work: str
) -> None:
    insert_row(host)
    row = host.session.scalars(select(host.Thesis)).one()
    assert row.ibi is None
    ibi = change_elsewhere(host, lambda row: setattr(row, "views", 1))
    if work == "change":
        row.title = "On snow"
    elif work == "refresh":
        host.ibi.refresh(row)
    elif work == "reference":
        host.session.add(host.Thesis(title="next", previous=row))
    else:
        host.session.delete(row)
    assert_agree(host)
    item = host.archive.get(ibi)
    assert item is not None
    assert (item.record.state == "Deleted") == (work == "delete")
    assert (item.record.next_edition is not None) == (work == "reference")


@pytest.mark.postgresql
def test_a_row_that_another_session_has_deleted_gets_no_item(host: Host) -> None:
    insert_row(host)
    row = host.session.scalars(select(host.Thesis)).one()
    with Session(host.engine) as other:
        other.execute(delete(host.Thesis))
        other.commit()
    with pytest.raises(IBIError, match="Thesis 1: another transaction has deleted the row"):
        host.ibi.refresh(row)
    host.session.rollback()
    assert_agree(host)


CHANGES: dict[str, Callable[[Host, Session], object]] = {
    "flush": lambda host, other: setattr(other.get(host.Thesis, 1), "title", "On snow"),
    "update": lambda host, other: other.execute(update(host.Thesis).values(title="On snow")),
    "delete": lambda host, other: other.execute(delete(host.Thesis).where(host.Thesis.id == 1)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("after", ["before the rows are read", "after the rows were read"])
def test_rows_that_others_change_during_an_adoption_agree_with_their_items(
    host: Host, change: str, after: str
) -> None:
    for title in ("On rain", "On ice"):
        insert_row(host, title)
    done: list[bool] = []

    def run(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if "LIMIT" not in statement or done:
            return
        done.append(True)
        # the adoption may have locked the rows, and waits for this function
        with Session(host.engine) as other, suppress(DBAPIError):
            waiting = (
                "SET LOCAL lock_timeout = 100"
                if host.engine.dialect.name == "postgresql"
                else "PRAGMA busy_timeout = 100"
            )
            other.execute(text(waiting))
            CHANGES[change](host, other)
            other.commit()

    name = f"{after.partition(' ')[0]}_cursor_execute"
    event.listen(host.engine, name, run)
    result = adopting.Adopter(host.archive, host.session(), host.Thesis).run()
    event.remove(host.engine, name, run)
    assert done
    assert result.adopted > 0
    assert_agree(host)
