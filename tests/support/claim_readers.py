"""Reads the claims of an Archive page by page, as a resolver does, and restores older databases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flask import Flask
from sqlalchemy import make_url

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.claim import MAX_PAGE, Claim, Page, parse_claim, parse_key, parse_page
from support.archives import archive_of
from support.databases import copy_database, create_database, drop_database

PATH = "/ibi/claims"


class ClaimReader:
    """A reader that applies pages: a claim replaces the one before, Unclaimed removes it.

    :ivar rows: the claims and their epochs, by item and epoch.
    """

    def __init__(self, app: Flask) -> None:
        self.client = app.test_client()
        self.service = archive_of(app).served().service_ibi
        self.key = parse_key(self.client.get(f"{PATH}/key").data, self.service)
        self.position = ""
        self.rows: dict[tuple[str, str], Claim] = {}

    def read(self, limit: int | None = None) -> Page:
        """Read and apply the next page."""
        query = {"after": self.position} | ({} if limit is None else {"limit": str(limit)})
        answer = self.client.get(PATH, query_string=query)
        assert answer.status_code == 200, answer.text
        page = parse_page(answer.data, self.key)
        assert page.archive == self.service
        assert page.after in (self.position, "")
        assert len(page.claims) <= (limit or 10**9)
        assert sum(len(line) + 1 for line in page.claims) <= MAX_PAGE
        claims = [parse_claim(line) for line in page.claims]
        assert len({claim.item for claim in claims}) == len(claims)
        for claim in claims:
            self.rows.pop((claim.item, page.epoch), None)
            if claim.state is not None:
                self.rows[claim.item, page.epoch] = claim
        if not page.more:
            self.rows = {key: row for key, row in self.rows.items() if key[1] == page.epoch}
        self.position = page.position
        return page

    def read_all(self, limit: int | None = None) -> Page:
        """Read until there is nothing more, and return the last page."""
        while (page := self.read(limit)).more:
            pass
        return page

    def claims(self) -> dict[str, Claim]:
        """Read all, and return the claims by the short identifiers, without that of the service."""
        self.read_all()
        named = {claim.identifiers[-1]: claim for claim in self.rows.values()}
        assert len(named) == len(self.rows)
        return {ibi: claim for ibi, claim in named.items() if self.service not in claim.identifiers}


def read_claims(app: Flask) -> dict[str, Claim]:
    """Return the present claims by the short identifiers, without that of the service."""
    return ClaimReader(app).claims()


def keep_database(archive: Archive, folder: Path) -> Callable[[], None]:
    """Copy the database of an Archive, and return the function that sets it back."""
    uri = archive.config.database_uri
    if archive.database.engine.dialect.name == "sqlite":
        path, copy = make_url(uri).database, folder / "copy.sqlite"
        copy_database(path, copy)
        return lambda: copy_database(copy, path)
    database = archive.database
    name = str(make_url(uri).database)
    database.close()
    kept = create_database(name)

    def restore() -> None:
        database.close()
        drop_database(name)
        create_database(kept, name)
        drop_database(kept)

    return restore
