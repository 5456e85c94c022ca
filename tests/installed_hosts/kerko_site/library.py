"""A bibliography of Kerko, filled without Zotero's server: the cache that Kerko fills from it."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bibliography import create_app
from flask import Flask
from kerko.storage import get_storage_dir, open_index, save_object
from kerko.sync.cache import get_cache_schema, get_formats
from kerko.sync.zotero import LibraryContext
from whoosh.query import Every

PDF = b"%PDF-1.4 content"


CONTEXT = LibraryContext(
    "1234",
    "group",
    collections={},
    item_types={"report": "Report"},
    item_fields={"report": [{"field": "title", "localized": "Title"}]},
    creator_types={"report": [{"creatorType": "author", "localized": "Author"}]},
)


def make_app(settings: Mapping[str, Any], folder: Path, **more: Any) -> Flask:
    """Return the app of the page docs/hosts.rst."""
    page = runpy.run_path(str(Path(__file__).with_name("site") / "settings.py"))
    shown = {name: value for name, value in page.items() if name.startswith("IBI_")}
    library = {"ZOTERO_LIBRARY_ID": "1234", "ZOTERO_LIBRARY_TYPE": "group"}
    place = {"INSTANCE_PATH": str(folder / "instance"), "BOOTSTRAP_SERVE_LOCAL": True}
    return create_app({**shown, **settings, **library, "ZOTERO_API_KEY": "0" * 16, **place, **more})


def run(app: Flask, *words: str) -> str:
    """Run a command of the app, and return its output."""
    result = app.test_cli_runner(catch_exceptions=False).invoke(args=words)
    assert result.exit_code == 0, result.output
    return result.stdout


def fill(app: Flask, version: int, titles: Mapping[str, str]) -> None:
    """Write reports, each with one PDF, to the cache, and run ``flask kerko sync index``."""
    with app.app_context():
        cache = open_index("cache", schema=get_cache_schema, auto_create=True, write=True)
        writer = cache.writer()
        writer.delete_by_query(Every())
        for key, title in titles.items():
            author = {"creatorType": "author", "lastName": "Silva", "firstName": "Ana"}
            report = {"itemType": "report", "title": title, "creators": [author], "date": "2026"}
            _add(writer, key, "", version, {**report, "language": "en"})
            name = f"{title.lower().replace(' ', '-')}.pdf"
            pdf = {"itemType": "attachment", "filename": name, "contentType": "application/pdf"}
            _add(writer, f"{key}F", key, version, {**pdf, "linkMode": "imported_file"})
            path = get_storage_dir("attachments") / f"{key}F"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(PDF)
        writer.commit()
        save_object("cache", "version", version)
        save_object("cache", "library", CONTEXT)
    run(app, "kerko", "sync", "index")


def _add(writer: Any, key: str, parent: str, version: int, data: dict[str, Any]) -> None:
    formats = dict.fromkeys(get_formats(), "")
    writer.add_document(
        key=key,
        version=version,
        parentItem=parent,
        itemType=data["itemType"],
        library={},
        links={},
        meta={"parsedDate": "2026"},
        data={**data, "key": key, "version": version, "parentItem": parent},
        **formats,
    )
