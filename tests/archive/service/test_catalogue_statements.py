"""The statements of a urlRequest: few, whatever the number of items, and only searches by keys."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timezone
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask
from sqlalchemy import event, insert, text
from support.archives import SERVICE, archive_of, close, import_records, make_app
from support.databases import new_database
from support.statements import count_statements
from support.stores import moment_of, rep_of
from support.vectors import load

from flask_ibi_archive.archive.items.tables import File, Item, ItemIdentifier, Translation
from flask_ibi_archive.core.protocol.relations import SHAPES

LENGTHS = (1, 2, 20)
SIZES = (2, 20)
ABOUT, LIMITED = rep_of(1, "about.org/one"), rep_of(2, "about.org/one")
VERB = {"u": "GetLastEdition", "t": "GetTranslation", "m": "GetMetadata"}
VERB_LISTS = {shape: "+".join(VERB[letter] for letter in shape) for shape in SHAPES}


def chain_item(length: int, place: int) -> str:
    return rep_of(length * 1000 + place)


def group_item(size: int, place: int) -> str:
    return rep_of(size * 1000 + place, "groups.org/one")


def make_records() -> list[dict[str, Any]]:
    """Return the records of chains of editions and groups of translations of all sizes."""
    about = {"metadata": {"ibi": ABOUT}}
    limited = {"access": {"networks": ["10.0.0.0/8"], "others": "metadata"}, **about}
    records: dict[str, dict[str, Any]] = {
        ABOUT: {"rep": ABOUT, "content_type": "Metadata", "timestamp": moment_of(1)},
        LIMITED: {"rep": LIMITED, "timestamp": moment_of(1), **limited},
    }
    for length in LENGTHS:
        chain = [chain_item(length, place) for place in range(length)]
        records.update({rep: {"rep": rep, "timestamp": moment_of(1), **limited} for rep in chain})
        for earlier, later in pairwise(chain):
            records[earlier]["next_edition"] = later
    languages = load("codes.json")["languages"].split()
    for size in SIZES:
        group = [group_item(size, place) for place in range(size)]
        records.update({rep: {"rep": rep, "timestamp": moment_of(2), **about} for rep in group})
        head = records[group[0]]
        head["language"] = languages[0]
        head["translations"] = dict(zip(languages[1:size], group[1:], strict=True))
        for rep in group:
            records[rep]["next_edition"] = later = rep.replace("groups.org", "later.org")
            records[later] = {"rep": later, "timestamp": moment_of(3), **limited}
    return list(records.values())


ITEMS = [
    LIMITED,
    *(chain_item(length, 0) for length in LENGTHS),
    *(group_item(size, place) for size in SIZES for place in (0, size - 1)),
]


@pytest.fixture(scope="module")
def apps(backend: str, tmp_path_factory: Any) -> Iterator[tuple[Flask, Flask]]:
    """Two apps with long chains and large groups; the second one does not filter its answers."""
    folder = tmp_path_factory.mktemp("store")
    with new_database(backend, folder, ready=True) as uri:
        app = make_app(uri, folder)
        archive_of(app).init()
        import_records(archive_of(app), make_records())
        whole = make_app(uri, folder, IBI_FILTER_URL_LIST=False)
        yield app, whole
        close(app)
        close(whole)


def ask(app: Flask, ibi: str, verbs: str = "", path: str = "") -> str:
    """Send a urlRequest and return the answer."""
    query = (
        f"servicesubject=urlRequest&parsedibiurl.ibi={ibi}&clientinformation.ipaddress=192.0.2.1"
        f"&parsedibiurl.verblist={verbs}&parsedibiurl.filepath={quote(path)}"
    )
    answer = app.test_client().get(f"/{SERVICE}?{query}")
    assert answer.status_code == 200
    return answer.text


@pytest.mark.postgresql
def test_the_number_of_statements_depends_on_the_steps_only(apps: tuple[Flask, Flask]) -> None:
    app, whole = apps
    for each in apps:
        ask(each, LIMITED)  # reads the Archive
    counts: dict[str, dict[str, int]] = {}
    for ibi in (*ITEMS, rep_of(1, "nobody.org/here")):
        for shape, verbs in VERB_LISTS.items():
            for path in ("", "missing%20.txt") if ibi == ITEMS[0] else ("",):
                statements = count_statements(app, partial(ask, app, ibi, verbs, path))
                assert all(each.startswith(("SELECT", "WITH")) for each in statements)
                assert len(statements) <= max(2, 1 + len(shape))
                assert len(statements) <= 5
                counts.setdefault(ibi, {})[shape] = len(statements)
        assert len(count_statements(whole, partial(ask, whole, ibi))) <= 5
    assert counts[chain_item(2, 0)] == counts[chain_item(20, 0)]
    assert counts[group_item(2, 0)] == counts[group_item(20, 0)] == counts[group_item(20, 19)]
    assert counts[group_item(2, 0)][""] == 1
    assert counts[LIMITED][""] == 2


#: So few items that PostgreSQL would rather read the whole table than search for 100 rows.
NUMBER = 3000


def fill(app: Flask) -> list[str]:
    """Store many items, each with a file, in pairs of editions, of translations and with metadata.

    :returns: the identifiers of the items.
    """
    archive = archive_of(app)
    same = {"archive_id": archive.served().id}
    reps = [rep_of(number) for number in range(NUMBER)]
    rows: dict[Any, list[dict[str, Any]]] = {}
    for number, rep in enumerate(reps):
        key, language = number + 1000, ("en", "pt")[number % 2]
        item = {"id": key, "rep": rep, "state": "Original", "language": language, **same}
        item |= {"timestamp": datetime(2009, 7, 21, tzinfo=timezone.utc), "target_path": "a"}
        item |= {"access_networks": "10.0.0.0/8", "access_others": "metadata"}
        item |= {"next_edition": None if number % 2 else reps[number + 1], "metadata_ibi": reps[-1]}
        name = {"text": rep, "item_id": key, "form": "rep", "state": "Original", **same}
        member = {"ibi": rep, "head": reps[number // 2 * 2], "language": language, **same}
        file = {"item_id": key, "path": "a", "position": 0}
        tables = (Item, ItemIdentifier, File, Translation)
        for table, row in zip(tables, (item, name, file, member), strict=True):
            rows.setdefault(table, []).append(row)
    with archive.database.writing() as connection:
        if connection.dialect.name == "postgresql":  # the triggers take most of the time
            connection.execute(text("SET LOCAL session_replication_role = replica"))
        for table, values in rows.items():
            # a large statement needs longer than the timeout in some containers
            for begin in range(0, NUMBER, 100):
                connection.execute(insert(table), values[begin : begin + 100])
    return reps


@pytest.mark.postgresql
def test_all_items_are_searched_by_keys(uri: str, tmp_path: Path) -> None:
    app = make_app(uri, tmp_path, IBI_FILTER_URL_LIST=False)
    archive = archive_of(app)
    archive.init()
    reps = fill(app)
    reader = archive.database.reader
    sent: dict[str, Any] = {}
    event.listen(reader, "before_cursor_execute", lambda *parts: sent.update({parts[2]: parts[3]}))
    explain = "EXPLAIN QUERY PLAN" if reader.dialect.name == "sqlite" else "EXPLAIN"
    with archive.database.writing() as connection:
        connection.execute(text("ANALYZE"))
    sent.clear()
    assert "ibi.translation(pt).metadata" in ask(app, reps[0], path="a")
    assert len(sent) >= 3
    if reader.dialect.name == "sqlite":  # PostgreSQL prefers to read a table as small as this one
        assert archive.items.view(reps[0], date(2009, 7, 21)) is not None
        assert len(sent) >= 8
    with archive.database.reading() as connection:
        for statement, parameters in [*sent.items()]:
            rows = connection.exec_driver_sql(f"{explain} {statement}", parameters)
            plan = "\n".join(str(row) for row in rows)
            # an empty table may be read
            plan = plan.replace("Seq Scan on ibi_tombstone", "")
            assert not any(scan in plan for scan in ("SCAN ibi_", "Seq Scan on ibi_")), plan
    close(app)
