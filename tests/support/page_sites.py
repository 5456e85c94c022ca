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
from support.browser import serving
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
from support.web import CONTENTS, rep, resolver_app, source

FIRST, SECOND, TRANSLATION, METADATA, GONE, COPY, BARE, UNKNOWN = map(rep, range(1, 9))
UNLISTED, BARE_GONE, CLOSED = map(rep, range(9, 12))
IBIP = "8JMKD3MGP8W/35MME4E"
ABSTRACT = "Twelve years of measurements show how often ice clouds form over the Amazon basin."
THESIS: dict[str, Any] = {
    "title": [{"value": "Ice clouds over the Amazon basin: twelve years of lidar", "lang": "en"}],
    "creator": ["Silva, Ana", "Instituto Nacional de Pesquisas Espaciais"],
    "contributor": ["Souza, Davi de"],
    "description": [{"value": ABSTRACT, "lang": "en"}],
    "subject": ["cirrus", "lidar"],
    "date": ["2025-03-14"],
    "type": ["Doctoral thesis"],
    "publisher": ["Instituto Nacional de Pesquisas Espaciais"],
    "rights": ["https://creativecommons.org/licenses/by/4.0/", "Free for teaching"],
    "identifier": ["https://doi.org/10.1000/182"],
}
#: The paths of the pages of an Archive, and the status of each page.
ARCHIVE_PAGES = {
    f"/col/{SECOND}/": 200,
    f"/col/{FIRST}/": 200,
    f"/col/{TRANSLATION}/": 200,
    f"/col/{METADATA}/": 200,
    f"/col/{COPY}/": 200,
    f"/col/{BARE}/": 200,
    f"/col/{UNLISTED}/": 200,
    f"/col/{GONE}/": 410,
    f"/col/{BARE_GONE}/": 410,
    f"/col/{CLOSED}/": 403,
    f"/col/{UNKNOWN}/": 404,
    f"/col/{SECOND}/files": 200,
    f"/col/{UNLISTED}/files": 200,
    f"/col/{SECOND}/files?format=x": 400,
    f"/col/{SECOND}/doc/none.pdf": 404,
    f"/col/{COPY}/doc/report.pdf": 403,
    f"/col/{SECOND}/metadata": 200,
    f"/col/{BARE}/metadata": 404,
    f"/col/{SECOND}/metadata?choice=none": 404,
    f"/col/{SECOND}/statistics": 200,
    f"/col/{SECOND}/statistics?by=day": 200,
    f"/col/{BARE}/statistics": 200,
    "/ibi/statistics": 200,
    "/ibi/items": 200,
    "/ibi/items/2025": 200,
    "/ibi/newest": 200,
    "/ibi/newest?page=2": 200,
    f"/{IBIP}:(mods)": 404,
    "/admin/ibi?q=ice": 200,
    f"/admin/ibi?withdraw={GONE}": 409,
    f"/admin/ibi?withdraw={IBIP}": 200,
}
RESOLVER_PAGES = {
    "/": 200,
    "/?ibi=8JMKD3MGP8W/34PGRBS&do=decode": 200,
    "/?ibi=sid.inpe.br/mtc-m18/2009/02.16.17.46&do=decode": 200,
    "/?ibi=": 400,
    "/?ibi=sid.inpe.br/mtc-m18/2OO9/02.16.17.46": 400,
    "/?ibi=NEW/GADGETS&do=decode": 400,
    "/8JMKD3MGP8W": 400,
    "/8JMKD3MGP8W/34PGRBS": 504,  # the two Archives do not answer
    "/ibi/conflicts": 200,
    "/ibi/conflicts?state=all": 200,
    "/ibi/conflicts?state=ended&before=1": 200,
    "/ibi/conflicts/1": 200,
    "/ibi/conflicts/2": 200,
    "/ibi/conflicts/3": 200,
    "/ibi/conflicts/4": 404,
    "/ibi/registry": 200,
}
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
UNREADY_PAGES = {f"/col/{FIRST}/": 503, "/ibi/items": 503, "/ibi/statistics": 503}


def records(folder: Path) -> list[dict[str, Any]]:
    """Return the records of an item of each kind."""
    files = [{"path": name, "source": source(folder, name)} for name in ("report.pdf", "table.csv")]
    portuguese = {"title": ["Nuvens de gelo sobre a bacia amazônica"], "creator": ["Silva, Ana"]}
    found: list[dict[str, Any]] = [
        {
            "rep": FIRST,
            "ibip": IBIP,
            "language": "en",
            "next_edition": SECOND,
            "metadata": {"dc": {**THESIS, "title": ["Ice clouds, first results"]}},
            "files": files,
        },
        {
            "rep": SECOND,
            "aliases": ["83LX3pFwXQZeBBx/hwiTk"],
            "language": "en",
            "translations": {"pt": TRANSLATION},
            "metadata": {"dc": THESIS},
            "files": [*files, {"path": "raw.nc", "url": "https://example.org/raw.nc"}],
        },
        {"rep": TRANSLATION, "language": "pt", "metadata": {"ibi": METADATA}, "files": files},
        {"rep": METADATA, "content_type": "Metadata", "metadata": {"dc": portuguese}},
        {
            "rep": GONE,
            "state": "Deleted",
            "timestamp": "2024-05-02T10:00:00Z",
            "metadata": {"dc": THESIS},
            "tombstone": {"reason": "The data contain an error.", "successor": SECOND},
        },
        {"rep": BARE_GONE, "state": "Deleted", "timestamp": "2024-05-02T10:00:00Z"},
        {
            "rep": COPY,
            "state": "Copy",
            "original_archive": "sid.inpe.br/mtc-m99@80/2009/07.21.13.23",
            "metadata": {"dc": {"title": ["Calibration of the lidar"]}},
            "embargo": "9999-03-01",
            "files": files[:1],
        },
        {"rep": BARE, "files": files},
        {"rep": UNLISTED, "list_files": False, "files": files},
        {
            "rep": CLOSED,
            "access": {"networks": ["192.0.2.0/24"], "others": "none"},
            "files": files[:1],
        },
    ]
    return [{"timestamp": "2026-05-04T10:00:00Z", **record} for record in found]


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
            (archive, ARCHIVE_PAGES),
            (stack.enter_context(_resolver(folder / "resolver")), RESOLVER_PAGES),
            (resolver_app(lambda *asked: ALERTS[request.args["alert"]]()), ALERT_PAGES),
            (unready, UNREADY_PAGES),
        )
        yield {
            f"http://127.0.0.1:{stack.enter_context(serving(app))[0]}": pages
            for app, pages in sites
        }


@contextmanager
def _archive(folder: Path) -> Iterator[Flask]:
    app = make_app(f"sqlite:///{folder / 'ibi.sqlite'}", folder, IBI_ARCHIVE_NAME="Vale Archive")
    archive_of(app).init()
    import_records(archive_of(app), records(folder))
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
