"""The app of a host in a test, with methods that change its items and ask its Archive."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest
from flask import Flask

from flask_ibi_archive.archive.items.operations import (
    Identified,
    ItemRecord,
    require_ibi,
)
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.testing.fixtures import FixedClock
from flask_ibi_archive.testing.servers import Pairs, Reader

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The network whose users may read closed items, a user in it, and a user outside.
NETWORK = "150.163.0.0/16"
INSIDE, OUTSIDE = "150.163.2.175", "203.0.113.7"

Result = TypeVar("Result")


class HostUnderTest:
    """The app of a host, with methods that change its items and ask its Archive."""

    #: What the host does not have: "editions", "translations", "access" (rules by network),
    #: "embargo", "several files" (an item has at most one file), "list" (the catalogue can't list
    #: its items) or "removal". The tests of these features are skipped.
    without: Collection[str] = ()

    app: Flask
    #: A temporary folder, which is deleted after the test.
    folder: Path
    #: A clock that stands still, for ``IBIArchive(clock=self.clock)``, to test embargoes.
    clock: FixedClock

    # --- what the host writes --------------------------------------------------------------------

    def create_app(self, settings: dict[str, Any]) -> Flask:
        """Return the app of the host with an IBIArchive.

        :param settings: the settings of the Archive, with a new database. A host with a session
            uses the same database: ``SQLALCHEMY_DATABASE_URI=settings["IBI_DATABASE_URI"]``.
        """
        raise NotImplementedError("create_app() must return the app of the repository")

    def prepare_app(self, app: Flask) -> None:
        """Create the tables of the host, if this is necessary."""

    def close_app(self, app: Flask) -> None:
        """Close the connections of the host at the end of a test."""

    def add_item(self, record: ItemRecord) -> str | Identified:
        """Add an item as a user of the host does.

        The method of this class deposits the item.

        :returns: an identifier of the item, or an object with an ``ibi``, such as the committed row
            of a model with IdentifiedItem.

        :param record: some of the fields title, creators, language, files (paths), access, embargo,
            previous_edition and translation_of.
        """
        return self.archive.deposit(record)

    def remove_item(self, ibi: str, reason: str) -> None:
        """Remove an item. Its tombstone contains the reason."""
        self.archive.delete(ibi, reason)

    # --- helpers ---------------------------------------------------------------------------------

    @pytest.fixture(autouse=True)
    def _set_up(
        self, ibi_settings: dict[str, Any], ibi_clock: FixedClock, tmp_path: Path
    ) -> Iterator[None]:
        self.folder, self.clock = tmp_path, ibi_clock
        self.app = self.create_app(ibi_settings)
        with self.app.app_context():
            self.archive.init()
            self.prepare_app(self.app)
        yield
        with self.app.app_context():
            self.close_app(self.app)
        self.archive.database.close()

    @property
    def archive(self) -> Archive:
        """The Archive of the app."""
        return Reader(self.app).archive

    def require(self, feature: str) -> None:
        """Skip the test if the host does not have a feature."""
        if feature in self.without:
            pytest.skip(f"the repository has no {feature}")

    def in_app(self, call: Callable[[], Result]) -> Result:
        """Call a function in the app context, and return its result."""
        with self.app.app_context():
            return call()

    def add(self, **fields: Any) -> str:
        """Add an item, with a title and a language unless ``fields`` contains others."""
        record = {"title": "Annual report", "creators": ["Silva, Ana"], "language": "en", **fields}
        # in the app context, because a row may be detached from its session afterwards
        ibi = self.in_app(lambda: require_ibi(self.add_item(cast(ItemRecord, record))))
        return parse_identifier(ibi).text

    def write_file(self, name: str = "report.txt", text: str = "The content.") -> Path:
        """Write a file, and return its path."""
        path = self.folder / name
        path.write_text(text)
        return path

    def get(self, ibi: str) -> ItemView:
        """Return an item."""
        found = self.in_app(lambda: self.archive.get(ibi))
        assert found is not None, f"the Archive does not have the item {ibi}"
        return found

    def ask(self, ibi: str, verbs: str = "", path: str = "", user: str = INSIDE) -> Pairs:
        """Return the answer to a urlRequest."""
        return Reader(self.app, user).request_urls(ibi, verbs, path)

    def open(self, url: str, user: str = INSIDE) -> tuple[int, str]:
        """Return the status and the text of a page or a file."""
        response = Reader(self.app, user).open(url)
        return response.status_code, response.text

    def page_of(self, ibi: str) -> str:
        """Return the URL of the page of an item."""
        return self.archive.addresses.item(self.get(ibi))

    def count(self, ibi: str | None) -> int:
        """Return how often an item, or any item, was requested."""
        found = self.in_app(lambda: self.archive.statistics(ibi, "day"))
        return found.views + found.downloads
