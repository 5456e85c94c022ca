"""The contract of the items of a host: the behaviour of a correct Archive.

Every host can inherit from :class:`CatalogueContract`: a host that deposits items, that has models
with identifiers, or that has its own catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest
from flask import Flask

from flask_ibi_archive.archive.items import item_record
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.testing.reader import FixedClock, Pairs, Reader

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The network whose users may read closed items, a user in it, and a user outside.
NETWORK = "150.163.0.0/16"
INSIDE, OUTSIDE = "150.163.2.175", "203.0.113.7"

Result = TypeVar("Result")


class CatalogueContract:
    """The tests of a host's items. The host inherits from this class in a test module.

    ::

        from flask_ibi_archive.testing import CatalogueContract

        class TestRepository(CatalogueContract):
            without = ["translations", "access"]  # if the repository does not have them

            def create_app(self, settings):
                return my_repository.create_app(settings, clock=self.clock)

            def prepare_app(self, app):
                db.create_all()

            def add_item(self, record):
                row = Document(title=record["title"], ...)
                db.session.add(row)
                db.session.commit()
                return row.ibi

            def remove_item(self, ibi, reason):
                ...

    The host's ``conftest.py`` contains ``pytest_plugins = ["flask_ibi_archive.testing"]``. All
    methods that the host overrides are called in the app context. To use another database, replace
    the fixture ``ibi_database_uri``.
    """

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

    def add_item(self, record: item_record.ItemRecord) -> str | item_record.Identified:
        """Add an item as a user of the host does.

        This implementation deposits the item. A host may override the method.

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

    def require(self, *features: str) -> None:
        """Skip the test if the host does not have a feature."""
        for feature in features:
            if feature in self.without:
                pytest.skip(f"the repository has no {feature}")

    def in_app(self, call: Callable[[], Result]) -> Result:
        """Call a function in the app context, and return its result."""
        with self.app.app_context():
            return call()

    def add(self, **fields: Any) -> str:
        """Add an item, and return an identifier. Title and language have default values."""
        record = {"title": "Annual report", "creators": ["Silva, Ana"], "language": "en", **fields}
        # in the app context, because a row may be detached from its session afterwards
        return self.in_app(
            lambda: item_record.require_ibi(self.add_item(cast(item_record.ItemRecord, record)))
        )

    def write_file(self, name: str = "report.txt", text: str = "The content.") -> Path:
        """Write a file, and return its path."""
        path = self.folder / name
        path.write_text(text)
        return path

    def get(self, ibi: str) -> ItemView:
        """Return an item."""
        item = self.in_app(lambda: self.archive.get(ibi))
        assert item is not None, f"the Archive does not have the item {ibi}"
        return item

    def ask(self, ibi: str, verbs: str = "", path: str = "", user: str = INSIDE) -> Pairs:
        """Send a urlRequest, and return the answer: the words of each pair, by the name."""
        return Reader(self.app, user).request_urls(ibi, verbs, path)

    def open(self, url: str, user: str = INSIDE) -> tuple[int, str]:
        """Open a page or a file; return ``(status, text)`` of the response."""
        response = Reader(self.app, user).open(url)
        return response.status_code, response.text

    def page_of(self, ibi: str) -> str:
        """Return the URL of the page of an item."""
        return self.archive.addresses.item(self.get(ibi))

    def count(self, ibi: str | None) -> int:
        """Return how many accesses to an item were counted; for None, to all items."""
        counts = self.in_app(lambda: self.archive.statistics(ibi, "day"))
        return counts.views + counts.downloads

    # --- items and identifiers -------------------------------------------------------------------

    def test_an_item_is_found_by_each_of_its_identifiers_in_any_case(self) -> None:
        item = self.get(self.add(files=[self.write_file()]))
        answer = self.ask(item.ibi)
        assert (answer["state"], answer["contenttype"]) == (("Original",), ("Data",))
        forms = {"rep": item.rep, "ibip": item.ibip}
        words = [word for form, text in forms.items() if text for word in (form, text)]
        assert list(answer["ibi"]) == words
        assert answer["archiveaddress"] == (self.archive.config.archive_address,)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", answer["timestamp"][0])
        for ibi in item.record.identifiers:
            for text in (ibi.lower(), ibi.upper()):
                assert self.get(text).record == item.record
                assert self.ask(text)["url"] == answer["url"]

    def test_identifiers_are_unique_and_never_issued_again(self) -> None:
        """[D] 3.1: an identifier identifies one item for ever."""
        items = [self.get(self.add(title=f"Report {number}")) for number in range(3)]
        if "removal" not in self.without:
            self.in_app(lambda: self.remove_item(items[0].ibi, "A test."))
        items.append(self.get(self.add()))
        identifiers = [ibi for item in items for ibi in item.record.identifiers]
        assert len(set(identifiers)) == len(identifiers)
        for item in items[1:]:
            assert self.get(item.ibi).title == item.title

    def test_an_unknown_identifier_has_an_empty_answer_and_no_page(self) -> None:
        minted = self.in_app(lambda: self.archive.mint()[0])
        assert self.ask(minted.ibi) == {}
        assert self.in_app(lambda: self.archive.get(minted.ibi)) is None
        assert self.open(self.archive.addresses.item(minted))[0] == 404
        service = self.in_app(lambda: self.archive.served().service_ibi)
        assert self.ask(service)["state"] == ("Original",)
        assert self.get(service).is_service

    def test_items_are_listed(self) -> None:
        self.require("list")
        first, second = self.add(title="Snow"), self.add(title="Rain")
        listed = self.in_app(lambda: {item.ibi for item in self.archive.find()})
        assert listed == {self.get(first).ibi, self.get(second).ibi}
        found = self.in_app(lambda: [item.title for item in self.archive.find("sNOW")])
        assert found == ["Snow"]

    # --- pages, files and metadata ---------------------------------------------------------------

    def test_every_url_of_the_answer_can_be_opened(self) -> None:
        ibi = self.add(title="Snow & ice", files=[self.write_file()])
        assert self.open(self.ask(ibi)["url"][0]) == (200, "The content.")
        assert "url" not in self.ask(ibi, path="missing.txt")
        pairs = {**self.ask(ibi), **self.ask(ibi, "GetMetadata"), **self.ask(ibi, "GetFileList")}
        urls = [words[0] for name, words in pairs.items() if re.match(r"url(\.|$)", name)]
        assert urls
        assert [self.open(url)[0] for url in urls] == [200] * len(urls)
        pairs = self.ask(ibi, "GetMetadata(oai_dc)")
        assert pairs["contenttype.metadata(oai_dc)"] == ("Metadata",)
        for url in (self.page_of(ibi), pairs["url.metadata(oai_dc)"][0]):
            status, text = self.open(url)
            assert status == 200
            assert "Snow &amp; ice" in text

    def test_the_url_leads_to_the_target_file_and_a_path_to_another_file(self) -> None:
        self.require("several files")
        ibi = self.add(files=[self.write_file(), self.write_file("data.csv", "1;2")])
        assert self.open(self.ask(ibi)["url"][0]) == (200, "The content.")
        assert self.open(self.ask(ibi, path="data.csv")["url"][0]) == (200, "1;2")

    def test_an_item_without_files_leads_to_its_page(self) -> None:
        ibi = self.add(title="Without files")
        assert self.ask(ibi)["url"] == (self.page_of(ibi),)

    # --- editions and translations ---------------------------------------------------------------

    def test_an_edition_leads_to_the_next_and_to_the_last(self) -> None:
        self.require("editions")
        first = self.add(title="First", files=[self.write_file("1.txt", "1")])
        second = self.add(title="Second", previous_edition=first)
        last = self.write_file("3.txt", "3")
        third = self.add(title="Third", previous_edition=second, files=[last])
        assert self.get(first).record.next_edition in self.get(second).record.identifiers
        pairs = self.ask(first, "GetLastEdition")
        assert self.open(pairs["url.lastedition"][0]) == (200, "3")
        assert self.ask(third, "GetLastEdition")["url.lastedition"] == self.ask(third)["url"]
        # the access counts for the requested item
        Reader(self.app, INSIDE).acknowledge(pairs, ".lastedition")
        assert [self.count(first), self.count(third)] == [1, 0]

    def test_a_removed_last_edition_is_skipped(self) -> None:
        self.require("editions", "removal")
        first = self.add(title="First", files=[self.write_file("1.txt", "1")])
        second = self.add(title="Second", previous_edition=first)
        self.in_app(lambda: self.remove_item(second, "A test."))
        pairs = self.ask(first, "GetLastEdition")
        assert self.open(pairs["url.lastedition"][0]) == (200, "1")

    def test_each_translation_leads_to_all_others(self) -> None:
        self.require("translations")
        items = [self.add(files=[self.write_file("en.txt", "en")])]
        for language in ("pt", "es"):
            file = self.write_file(f"{language}.txt", language)
            items.append(self.add(language=language, translation_of=items[0], files=[file]))
        for ibi in items:
            pairs = self.ask(ibi, "GetTranslation")
            for language in ("en", "pt", "es"):
                assert self.open(pairs[f"url.translation({language})"][0]) == (200, language)

    # --- access and removal ----------------------------------------------------------------------

    def test_only_users_of_the_networks_get_the_files_of_a_closed_item(self) -> None:
        self.require("access")
        ibi = self.add(access={"networks": [NETWORK]}, files=[self.write_file()])
        url = self.ask(ibi)["url"][0]
        assert self.open(url) == (200, "The content.")
        assert self.open(url, OUTSIDE)[0] == 403
        outside = self.ask(ibi, user=OUTSIDE)
        assert outside["contenttype"] == ("Metadata",)
        assert self.open(outside["url"][0], OUTSIDE)[0] == 200

    def test_nobody_gets_the_files_before_the_day_of_the_embargo(self) -> None:
        self.require("embargo")
        if self.archive.clock is not self.clock:
            pytest.skip("create_app() does not pass self.clock to IBIArchive")
        day = self.clock.now.date() + timedelta(days=2)
        ibi = self.add(embargo=day.isoformat(), files=[self.write_file()])
        assert self.ask(ibi)["contenttype"] == ("Metadata",)
        url = self.archive.addresses.file(self.get(ibi), "report.txt")
        assert self.open(url)[0] == 403
        self.clock.advance(days=2)
        assert self.open(self.ask(ibi)["url"][0]) == self.open(url) == (200, "The content.")

    def test_a_removed_item_is_deleted_and_has_a_tombstone(self) -> None:
        self.require("removal")
        ibi = self.add(files=[self.write_file()])
        url = self.ask(ibi)["url"][0]
        address = self.archive.addresses.file(self.get(ibi), "report.txt")
        self.in_app(lambda: self.remove_item(ibi, "Retracted by its author."))
        pairs = self.ask(ibi)
        assert pairs["state"] == ("Deleted",)
        assert not {"url", "urlkey"} & pairs.keys()
        status, page = self.open(self.page_of(ibi))
        assert status == 410
        assert "Retracted by its author." in page
        assert self.open(address)[0] == 410
        # a host that sends the files itself may answer in another way
        assert self.open(url)[0] in (403, 404, 410)

    # --- accesses and the resolver ---------------------------------------------------------------

    def test_a_key_of_one_item_counts_once_and_not_for_another(self) -> None:
        ibi, other = self.add(files=[self.write_file()]), self.add(title="Other")
        inside, outside = Reader(self.app, INSIDE), Reader(self.app, OUTSIDE)
        inside.acknowledge({**self.ask(other), "urlkey": self.ask(ibi)["urlkey"]})
        assert self.count(None) == 0
        pairs, again = self.ask(ibi), self.ask(ibi, user=OUTSIDE)
        for _ in range(2):
            inside.acknowledge(pairs)
        assert self.count(ibi) == 1
        outside.acknowledge(again)
        outside.acknowledge({**again, "urlkey": (again["urlkey"][0][:-1],)})
        assert self.count(ibi) == self.count(None) == 2
        assert self.open(self.archive.addresses.statistics(self.get(ibi)))[0] == 200
