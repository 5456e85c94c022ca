"""A clock and a reader for the tests of a host."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Flask
from werkzeug.test import TestResponse

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol import messages
from flask_ibi_archive.core.protocol.pairs import pairs_as_dict, parse_pairs
from flask_ibi_archive.core.protocol.relations import parse_verb_list

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The User-Agent of a reader who is not a robot.
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
#: The IP address of a reader.
USER = "150.163.2.175"

#: The pairs of an answer: the words of each value, by name.
Pairs = dict[str, tuple[str, ...]]


class FixedClock:
    """A clock that stands still until a test advances it.

    ::

        clock = FixedClock()
        app = create_app(settings, clock=clock)     # IBIArchive(clock=clock)
        clock.advance(3600)

    :param now: the time that the clock shows, with a time zone.
    """

    def __init__(self, now: datetime = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)) -> None:
        self.now: datetime = now

    def __call__(self) -> datetime:
        """Return the time that the clock shows."""
        return self.now

    def advance(self, seconds: float = 0, *, days: float = 0) -> None:
        """Set the clock to a later time."""
        self.now += timedelta(days=days, seconds=seconds)


class Reader:
    """A reader who reaches an Archive through a resolver; this class plays both parts.

    ::

        reader = Reader(app)
        pairs = reader.request_urls("8JMKD3MGP8W/35MME4E", "GetLastEdition")
        page = reader.open(pairs["url.lastedition"][0])

    :param app: the app of the Archive.
    :param user: the IP address of the reader.
    """

    def __init__(self, app: Flask, user: str = USER) -> None:
        self.app = app
        self.user = user

    @property
    def archive(self) -> Archive:
        """The Archive of the app."""
        archive: Archive = self.app.extensions["ibi_archive"].archive
        return archive

    def request_urls(self, ibi: str, verbs: str = "", path: str = "") -> Pairs:
        """Send a urlRequest, and return the answer: the words of each pair, by the name.

        :param verbs: such as ``GetLastEdition GetMetadata(oai_dc)``.
        :param path: the path of a file of the item.
        """
        request = messages.UrlRequest(
            parse_identifier(ibi), (self.user,), path, parse_verb_list(verbs)
        )
        response = self._send(messages.format_request(request))
        assert response.status_code == 200, response.text
        return pairs_as_dict(parse_pairs(response.data))

    def acknowledge(self, pairs: Pairs, relation: str = "") -> None:
        """Acknowledge that the reader was redirected to a URL of an answer.

        :param pairs: the answer of :meth:`request_urls`.
        :param relation: the relation of the URL, such as ``.lastedition``.
        """
        named = pairs.get(f"ibi{relation}")
        response = self._send(
            messages.format_request(
                messages.Acknowledgment(
                    client_addresses=(self.user,),
                    content_type=pairs[f"contenttype{relation}"][0],
                    state=pairs[f"state{relation}"][0],
                    url=pairs[f"url{relation}"][0],
                    persistent_url=f"{self.archive.persistent_url_base}/{pairs['ibi'][1]}",
                    url_key=pairs["urlkey"][0],
                    ibi=None if named is None else messages.parse_ibi_forms(named),
                )
            )
        )
        assert response.status_code == 200, response.text

    def open(self, url: str) -> TestResponse:
        """Open a URL of the app as a browser of the reader does."""
        parts = urlsplit(url)
        return self.app.test_client().get(
            f"{parts.path}?{parts.query}" if parts.query else parts.path,
            base_url=f"http://{self.archive.config.archive_address}",
            headers={"User-Agent": BROWSER},
            environ_overrides={"REMOTE_ADDR": self.user},
            buffered=True,
            # the persistent URL of a closed item leads to its landing page
            follow_redirects=True,
        )

    def _send(self, query: str) -> TestResponse:
        """Send a message to the service of the Archive, as a resolver does."""
        with self.app.app_context():
            service = self.archive.served().service_ibi
        return self.app.test_client().get(
            f"/{service}?{query}",
            base_url=f"http://{self.archive.config.archive_address}",
            headers={"User-Agent": "resolver", "X-Forwarded-User-Agent": BROWSER},
        )
