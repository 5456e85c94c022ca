"""The contract of the items of a host: the behaviour of a correct Archive.

A host inherits from :class:`CatalogueContract`, whether it deposits its items, has models with
identifiers, or has a catalogue of its own.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from flask_ibi_archive.testing.host_under_test import INSIDE, NETWORK, OUTSIDE, HostUnderTest
from flask_ibi_archive.testing.servers import LoopbackResolver, LoopbackServer, Reader


class CatalogueContract(HostUnderTest):
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
    methods that the host writes are called in the app context. To use another database, replace the
    fixture ``ibi_database_uri``.
    """

    # --- items and identifiers -------------------------------------------------------------------

    def test_an_item_is_found_by_each_of_its_identifiers_in_any_case(self) -> None:
        item = self.get(self.add(files=[self.write_file()]))
        answers = [self.ask(ibi)["url"] for ibi in item.record.identifiers]
        assert len(set(answers)) == 1
        for ibi in item.record.identifiers:
            for text in (ibi.lower(), ibi.upper()):
                assert self.get(text).record == item.record
                assert self.ask(text)["url"] == answers[0]

    def test_the_answer_describes_the_item(self) -> None:
        item = self.get(self.add())
        pairs = self.ask(item.ibi)
        assert (pairs["state"], pairs["contenttype"]) == (("Original",), ("Data",))
        words = {"rep": item.rep, "ibip": item.ibip}
        given = [word for form, text in words.items() if text for word in (form, text)]
        assert list(pairs["ibi"]) == given
        assert pairs["archiveaddress"] == (self.archive.config.archive_address,)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", pairs["timestamp"][0])

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

    def test_the_service_of_the_archive_remains_an_item(self) -> None:
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
        files = [self.write_file()]
        if "several files" not in self.without:
            files.append(self.write_file("data.csv", "1;2"))
        ibi = self.add(title="Snow and ice", files=files)
        pairs = {**self.ask(ibi), **self.ask(ibi, "GetMetadata"), **self.ask(ibi, "GetFileList")}
        urls = [words[0] for name, words in pairs.items() if re.match(r"url(\.|$)", name)]
        assert urls
        assert [self.open(url)[0] for url in urls] == [200] * len(urls)
        status, page = self.open(self.page_of(ibi))
        assert status == 200
        assert "Snow and ice" in page

    def test_the_url_leads_to_the_file(self) -> None:
        ibi = self.add(files=[self.write_file()])
        assert self.open(self.ask(ibi)["url"][0]) == (200, "The content.")
        assert "url" not in self.ask(ibi, path="missing.txt")

    def test_the_url_leads_to_the_target_file_and_a_path_to_another_file(self) -> None:
        self.require("several files")
        files = [self.write_file(), self.write_file("data.csv", "1;2")]
        ibi = self.add(files=files)
        assert self.open(self.ask(ibi)["url"][0]) == (200, "The content.")
        assert self.open(self.ask(ibi, path="data.csv")["url"][0]) == (200, "1;2")
        assert "url" not in self.ask(ibi, path="missing.txt")

    def test_an_item_without_files_leads_to_its_page(self) -> None:
        ibi = self.add(title="Without files")
        assert self.ask(ibi)["url"] == (self.page_of(ibi),)

    def test_the_metadata_are_delivered_as_dublin_core(self) -> None:
        ibi = self.add(title="Snow & ice")
        pairs = self.ask(ibi, "GetMetadata(oai_dc)")
        assert pairs["contenttype.metadata(oai_dc)"] == ("Metadata",)
        status, text = self.open(pairs["url.metadata(oai_dc)"][0])
        assert status == 200
        assert "Snow &amp; ice" in text

    # --- editions and translations ---------------------------------------------------------------

    def test_an_edition_leads_to_the_next_and_to_the_last(self) -> None:
        self.require("editions")
        first = self.add(title="First", files=[self.write_file("1.txt", "1")])
        second = self.add(title="Second", previous_edition=first)
        third = self.add(
            title="Third", previous_edition=second, files=[self.write_file("3.txt", "3")]
        )
        pairs = self.ask(first, "GetLastEdition")
        assert self.open(pairs["url.lastedition"][0]) == (200, "3")
        assert self.ask(third, "GetLastEdition")["url.lastedition"] == self.ask(third)["url"]
        following = self.get(first).record.next_edition
        assert following in self.get(second).record.identifiers

    def test_a_removed_last_edition_is_skipped(self) -> None:
        self.require("editions")
        self.require("removal")
        first = self.add(title="First", files=[self.write_file("1.txt", "1")])
        second = self.add(title="Second", previous_edition=first)
        self.in_app(lambda: self.remove_item(second, "A test."))
        pairs = self.ask(first, "GetLastEdition")
        assert self.open(pairs["url.lastedition"][0]) == (200, "1")

    def test_each_translation_leads_to_all_others(self) -> None:
        self.require("translations")
        english = self.add(files=[self.write_file("en.txt", "en")])
        portuguese = self.add(
            language="pt", translation_of=english, files=[self.write_file("pt.txt", "pt")]
        )
        spanish = self.add(
            language="es", translation_of=english, files=[self.write_file("es.txt", "es")]
        )
        for ibi in (english, portuguese, spanish):
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
        during = self.ask(ibi)
        assert during["contenttype"] == ("Metadata",)
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
        assert "url" not in pairs
        assert "urlkey" not in pairs
        status, page = self.open(self.page_of(ibi))
        assert status == 410
        assert "Retracted by its author." in page
        assert self.open(address)[0] == 410
        # a host that sends the files itself may answer in another way
        assert self.open(url)[0] in (403, 404, 410)

    # --- accesses --------------------------------------------------------------------------------

    def test_a_url_request_writes_nothing(self) -> None:
        ibi = self.add(files=[self.write_file()])
        statements: list[str] = []

        def note(*arguments: Any) -> None:
            statements.append(arguments[2])

        engine = self.archive.database.engine
        event.listen(engine, "before_cursor_execute", note)
        self.ask(ibi)
        event.remove(engine, "before_cursor_execute", note)
        assert [one for one in statements if re.match(r"(?i)\s*(insert|update|delete)", one)] == []

    def test_each_url_key_counts_once(self) -> None:
        ibi = self.add(files=[self.write_file()])
        assert self.count(ibi) == 0
        pairs, again = self.ask(ibi), self.ask(ibi, user=OUTSIDE)
        for _ in range(2):
            Reader(self.app, INSIDE).acknowledge(pairs)
        assert self.count(ibi) == 1
        Reader(self.app, OUTSIDE).acknowledge(again)
        forged = {**again, "urlkey": (again["urlkey"][0][:-1],)}
        Reader(self.app, OUTSIDE).acknowledge(forged)
        assert self.count(ibi) == self.count(None) == 2
        assert self.open(self.archive.addresses.statistics(self.get(ibi)))[0] == 200

    def test_an_access_counts_for_the_requested_item(self) -> None:
        self.require("editions")
        first = self.add(title="First")
        second = self.add(title="Second", previous_edition=first, files=[self.write_file()])
        pairs = self.ask(first, "GetLastEdition")
        Reader(self.app, INSIDE).acknowledge(pairs, ".lastedition")
        assert [self.count(first), self.count(second)] == [1, 0]

    def test_a_key_of_one_item_does_not_count_for_another(self) -> None:
        first, other = self.add(title="First"), self.add(title="Other")
        key = self.ask(first)["urlkey"]
        Reader(self.app, INSIDE).acknowledge({**self.ask(other), "urlkey": key})
        assert self.count(None) == 0

    # --- the resolver ----------------------------------------------------------------------------

    def test_a_resolver_finds_the_items_and_acknowledges_the_accesses(
        self, ibi_server: LoopbackServer, ibi_resolver: LoopbackResolver
    ) -> None:
        ibi = self.add(files=[self.write_file()])
        unknown = self.in_app(lambda: self.archive.mint()[0])
        ibi_server.serve(self.app)
        ibi_resolver.include(self.app)
        for name in self.get(ibi).record.identifiers:
            response = ibi_resolver.get(name)
            assert (response.status_code, response.location) == (302, self.ask(ibi)["url"][0])
        assert ibi_resolver.get(unknown.ibi).status_code == 404
        ibi_resolver.close()  # sends the acknowledgments
        assert self.count(ibi) >= 1
