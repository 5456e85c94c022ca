"""Running sites with a page of each kind: an Archive, a resolver, alerts, an unready Archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from flask import Flask, Response, request
from sqlalchemy import insert

from flask_ibi_archive import Archive
from flask_ibi_archive.archive.care import find_faults, store_faults
from flask_ibi_archive.archive.librarian import admin_page
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.resolution.answer import ArchiveSource
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, MissingPart
from flask_ibi_archive.core.resolution.persistent_url import parse_persistent_target
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.resolver.tables import Conflict
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.web.alerts import alert_response, method_response, unready_response
from support.accesses import insert_counts
from support.archives import archive_of, close, import_records, make_app
from support.loopback import serving
from support.registries import NOON, a_registry, included
from support.registry_calls import (
    COPY_URL,
    DATE,
    DOCUMENT,
    HERMES,
    ICONET,
    URL,
    actor_call,
    call,
    document_call,
    registry_app,
)
from support.resolving import resolver_of
from support.vectors import load
from support.web import CONTENTS, rep, resolver_app, shelf

FIRST, SECOND, TRANSLATION, METADATA, GONE, COPY, BARE, UNKNOWN = map(rep, range(1, 9))
UNLISTED, BARE_GONE, CLOSED = map(rep, range(9, 12))
IBIP = "8JMKD3MGP8W/35MME4E"
#: The status of each page by its path, for each site.
ADDRESSES: dict[str, dict[str, int]] = load("pages/addresses.json")
_UNREADY = NotReady("the database does not answer", "start it")
_ASKED = parse_identifier("8JMKD3MGP8W/35MMLL8")
_SOURCES = (
    ArchiveSource("sid.inpe.br/mtc-m18@80/2008/03.17.15.17", "mtc-m16c.sid.inpe.br"),
    ArchiveSource("8JMKD3MGP7W/3EPGUE5", "archive.example.org:8080"),
    ArchiveSource("dpi.inpe.br/banon/2001/01.11.16.21", "hermes.dpi.inpe.br:1905", is_actor=True),
)
_REMOVED: dict[str, Any] = {"sources": _SOURCES[:2], "timestamp": "2010-01-02T03:04:05Z"}
_MISSING: dict[str, Any] = {
    "missing_part": MissingPart.TRANSLATION,
    "alternatives": tuple(
        parse_persistent_target(f"/{_ASKED}{rest}") for rest in ("+(en)", ":", ":(oai_dc)")
    ),
}


def _alert(kind: AlertKind, name: str = "", **fields: Any) -> Callable[[], Response]:
    base = "http://resolver.example.org" if name else None
    return lambda: alert_response(Alert(kind, _ASKED, **fields), name, base)


#: The alerts, each by the query of its page.
ALERTS: dict[str, Callable[[], Response]] = {
    "unknown": _alert(AlertKind.UNKNOWN),
    "unknown_here": _alert(AlertKind.UNKNOWN, "unknown_here"),
    "removed": _alert(AlertKind.REMOVED, **_REMOVED),
    "removed_in_part": _alert(AlertKind.SILENT, silent=1, asked=7, **_REMOVED),
    "missing": _alert(AlertKind.MISSING, **_MISSING),
    "suspects": _alert(AlertKind.SUSPECTS, sources=_SOURCES),
    "silent": _alert(AlertKind.SILENT, silent=2, asked=7),
    "loop": _alert(AlertKind.LOOP),
    "too_long": _alert(AlertKind.TOO_LONG),
    "method": method_response,
    "unready": lambda: unready_response(_UNREADY),
}
#: The status of each page of an alert is that of the alert itself.
ALERT_PAGES = dict.fromkeys((f"/{_ASKED}+(fr)?alert={name}" for name in ALERTS), 0)


def add_counts(app: Flask) -> None:
    """Add accesses to the second item in the current month and the month before."""
    archive = archive_of(app)
    row = {"ibi": SECOND, "double_clicks": 1, "robots": 2}
    insert_counts(
        archive,
        [
            {**row, "day": day, "content_type": kind, "accesses": 1234}
            for day in (archive.today, archive.today.replace(day=1))
            for kind in ("Data", "Metadata")
            if day == archive.today or archive.today.day > 1
        ],
    )


def add_care(archive: Archive) -> None:
    """Add a damaged file, and an embargo that ends soon."""
    embargo = archive.today + timedelta(days=30)
    archive.edit(BARE, embargo=embargo.isoformat())
    archive.files_folder.path(sha256(CONTENTS["table.csv"]).hexdigest()).unlink()
    faults = find_faults(archive.database, archive.served().id, archive.files_folder)
    store_faults(archive.database, archive.served().id, list(faults), archive.clock())


@contextmanager
def serving_sites(folder: Path) -> Iterator[dict[str, dict[str, int]]]:
    """Serve the sites; yield the pages of each site by its base URL."""
    with ExitStack() as stack:
        archive = stack.enter_context(_archive(folder))
        unready = make_app(f"sqlite:///{folder / 'none.sqlite'}", folder / "unready")
        stack.callback(close, unready)
        sites = (
            (archive, ADDRESSES["archive"]),
            (stack.enter_context(_resolver(folder / "resolver")), ADDRESSES["resolver"]),
            (resolver_app(lambda *asked: ALERTS[request.args["alert"]]()), ALERT_PAGES),
            (unready, ADDRESSES["unready"]),
        )
        yield {f"http://{stack.enter_context(serving(app))}": pages for app, pages in sites}


@contextmanager
def _archive(folder: Path) -> Iterator[Flask]:
    app = make_app(f"sqlite:///{folder / 'ibi.sqlite'}", folder, IBI_ARCHIVE_NAME="Vale Archive")
    archive_of(app).init()
    import_records(archive_of(app), shelf(folder, "pages/sites.json"))
    add_counts(app)
    add_care(archive_of(app))
    app.add_url_rule("/admin/ibi", "care", admin_page, methods=["GET", "POST"])
    yield app
    close(app)


@contextmanager
def _resolver(folder: Path) -> Iterator[Flask]:
    """Yield a resolver with a registry in which two actors have registered a document."""
    metadata = [
        *(("metadataURL", f"{URL}.xml"), ("metadataLastUpdate", DATE)),
        *(("metadataFormat", "oai_dc"), ("metadataLanguage", "pt-BR")),
    ]
    editions = [("previousEditionURL", "http://a.br/1"), ("nextEditionURL", "http://a.br/3")]
    own = document_call(HERMES, DOCUMENT, originalDocument="yes")
    with registry_app(folder, IBI_RESOLVER_DATABASE_URI=f"sqlite:///{folder}.sqlite") as app:
        for sent in (
            actor_call(HERMES),
            actor_call(ICONET),
            [*own, *metadata, *editions],
            document_call(ICONET, DOCUMENT, COPY_URL),
        ):
            assert call(app, sent).status == 200
        add_conflicts(resolver_of(app).database)
        yield app


def add_conflicts(database: Database) -> None:
    """Add a conflict that has ended, and two that are open: of an Original, and of an alias."""
    first, second = included(a_registry(database), 2)
    pair = {"first_archive_id": first, "second_archive_id": second, "found_at": NOON}
    told_at = NOON + timedelta(minutes=1)
    rows = [
        {"name": str(_ASKED), "is_alias": False, "ended_at": NOON + timedelta(days=2)},
        {"name": METADATA, "is_alias": False, "ended_at": None},
        {"name": "url:old.example.org/handle/1/2", "is_alias": True, "ended_at": None},
    ]
    with database.writing() as connection:
        connection.execute(insert(Conflict), [{**row, **pair, "told_at": told_at} for row in rows])
