"""Archives on servers of their own, between which items move."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from flask import Flask

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.joining.registration import store_outcome
from flask_ibi_archive.core.protocol.inclusion import INCLUSION_REQUEST, RegistrationStatus
from support.archives import archive_of, close, make_app
from support.commands import Outcome, command
from support.databases import new_database
from support.loopback import HERE, PATIENCE, Later, serving

#: The services of the Archives, by their numbers.
SERVICES = {
    1: "sid.inpe.br/mtc-m18@80/2008/03.17.15.17",
    2: "sid.inpe.br/mtc-m19@80/2009/08.21.17.02",
}


class Killed(BaseException):
    """Raised where a test kills the process of the taker."""


def rep(number: int) -> str:
    """Return the identifier of the item with a number."""
    return f"a.br/x/2001/01.01.00.{number:02d}"


def item(number: int, **values: Any) -> dict[str, Any]:
    """Return a record."""
    title = {"dc": {"title": [f"Item {number}"]}}
    return {"rep": rep(number), "timestamp": "2020-01-01T00:00:00Z", "metadata": title, **values}


@dataclass
class Place:
    """An Archive on a server.

    :ivar address: the address of the server.
    """

    app: Flask
    address: str
    service: str

    @property
    def archive(self) -> Archive:
        return archive_of(self.app)

    def run(self, *words: Any, stdin: str = "") -> Outcome:
        """Run a command."""
        return command(self.app, *words, stdin=stdin.encode())

    def offer(self, to: Place, *words: Any) -> str:
        """Offer items, and return the address of the offer."""
        done = self.run("offer", *words, "--to", to.service)
        assert done.status == 0, done.err
        return done.out.strip()

    def accept(self, address: str, *words: Any) -> Outcome:
        """Accept an offer."""
        return self.run("accept", "-", *words, stdin=address)

    def states(self) -> dict[str, str]:
        """Return the states of the items."""
        return {one.record.identifiers[0]: one.record.state for one in self.archive.find()}

    def files(self) -> dict[tuple[str, str], str]:
        """Return the SHA-256 of all stored files of items that are not removed."""
        found = {}
        for one in self.archive.find():
            for file in one.record.files:
                content = Path(str(file.source)).read_bytes()
                found[one.record.identifiers[0], file.path] = hashlib.sha256(content).hexdigest()
        return found

    def status(self, ibi: str) -> int:
        """Return the status of the answer to a request for a persistent URL at this server."""
        url = f"http://{self.address}/{ibi}"
        return requests.get(url, allow_redirects=False, timeout=PATIENCE).status_code


def settings(number: int, address: str) -> dict[str, Any]:
    """Return the settings of an Archive, by its number."""
    return {
        "IBI_ARCHIVE_SERVICE_IBI": SERVICES[number],
        "IBI_ARCHIVE_ADDRESS": address,
        "IBI_PERSISTENT_URL_BASE": f"http://{address}",
        "IBI_MINT_HOST": f"mtc-m{number}.sid.inpe.br",
        "IBI_INNER_HOSTS": HERE,
    }


@contextmanager
def open_place(
    backend: str, folder: Path, number: int, ibi: IBIArchive | None = None, **config: Any
) -> Iterator[Place]:
    """Yield an Archive on a server.

    :param number: the number of the Archive.
    """
    folder.mkdir()
    later = Later()
    with (
        new_database(backend, folder, ready=True) as uri,
        ExitStack() as stack,
        serving(later, joins=True) as address,
    ):
        app = make_app(uri, folder, ibi, **{**settings(number, address), **config})
        stack.callback(close, app)  # after the server has ended
        later.app = app
        archive_of(app).init()
        yield Place(app, address, SERVICES[number])


def confirm(archive: Archive) -> None:
    """Store that a resolver has confirmed the inclusion of an Archive."""
    confirmed = RegistrationStatus("included", "successful")
    with archive.database.writing() as connection:
        place = connection, archive.served().id, archive.config
        store_outcome(*place, INCLUSION_REQUEST, confirmed, archive.clock())
