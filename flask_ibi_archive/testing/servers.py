"""Apps in tests: on the loopback interface, asked by a resolver, or asked without a server."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from flask import Flask
from werkzeug.exceptions import NotFound
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.test import TestResponse

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol import messages
from flask_ibi_archive.core.protocol.inclusion import INCLUSION_REQUEST, RegistrationRequest
from flask_ibi_archive.core.protocol.pairs import pairs_as_dict, parse_pairs
from flask_ibi_archive.core.protocol.relations import parse_verb_list

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.resolver.resolving import ResolverService

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
        self.now = now

    def __call__(self) -> datetime:
        """Return the time that the clock shows."""
        return self.now

    def advance(self, seconds: float = 0, *, days: float = 0) -> None:
        """Set the clock to a later time."""
        self.now += timedelta(days=days, seconds=seconds)


class Reader:
    """A reader of an Archive, whose requests a resolver forwards.

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
        """Return the answer of the Archive to a urlRequest: the words of each pair, by name.

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
                    persistent_url=f"{self.archive.config.persistent_url_base}/{pairs['ibi'][1]}",
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


HOST = "127.0.0.1"
#: The settings that allow Archives on this computer.
LOOPBACK = ("127.0.0.0/8",)
KEY = "1234567890"
#: The cost of a fast hash of the registration key.
CHEAP = 2**7
#: A time limit in seconds that is never reached, even on a slow computer.
PATIENCE = 60


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:
        """Write nothing."""


class LoopbackServer:
    """A server of one app on the loopback interface.

    The port is known before the app exists, because the app needs its address as a setting.
    """

    def __init__(self) -> None:
        self._app: Any = NotFound()
        self._server = make_server(HOST, 0, self._answer, threaded=True, request_handler=_Quiet)
        self.address = f"{HOST}:{self._server.port}"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Any:
        return self._app(environ, start_response)

    @property
    def url(self) -> str:
        """The beginning of the URLs of the app, without a slash at the end."""
        return f"http://{self.address}"

    def serve(self, app: Flask) -> None:
        """Answer requests with an app until :meth:`close`."""
        self._app = app

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class LoopbackResolver:
    """A resolver that asks apps on the loopback interface.

    :param folder: a folder for the files of the resolver.
    :param settings: settings of the resolver that differ from the default.
    """

    def __init__(self, folder: Path, **settings: Any) -> None:
        pytest.importorskip("pycurl", reason="a resolver needs flask_ibi_archive[resolver]")
        from flask_ibi_archive.resolver import IBIResolver

        self.app = Flask("resolver", instance_path=str(folder))
        self.app.config.from_mapping(
            TESTING=True,
            IBI_RESOLVER_DATABASE_URI="sqlite://",
            IBI_RESOLVER_INNER_HOSTS=LOOPBACK,
            IBI_RESOLVER_ARCHIVE_TIMEOUT=PATIENCE,
            IBI_RESOLVER_DEADLINE=PATIENCE,
        )
        self.app.config.from_mapping(settings)
        IBIResolver(self.app)
        self._service.init()

    @property
    def _service(self) -> ResolverService:
        service: ResolverService = self.app.extensions["ibi_resolver"].resolver
        return service

    def include(self, app: Flask) -> None:
        """Register and include the Archive of an app, which must already be served."""
        from flask_ibi_archive.resolver.archives import Registry

        archive: Archive = app.extensions["ibi_archive"].archive
        config, service = archive.config, archive.served().service_ibi
        registry = Registry(self._service.database, self._service.config, cost=CHEAP)
        registry.register(service, KEY)
        registry.process(
            RegistrationRequest(
                subject=INCLUSION_REQUEST,
                service_ibi=parse_identifier(service),
                address=config.archive_address,
                ip=config.archive_ip or HOST,
                platform_version=config.archive_platform_version,
                admin_email=config.archive_admin_email or "admin@example.org",
                key=KEY,
            )
        )

    def get(self, target: str, language: str = "en", user: str = HOST) -> TestResponse:
        """Request a persistent URL as a browser does, and return the response.

        :param target: the persistent URL without the host, such as ``8JMKD3MGP8W/35MME4E!``.
        :param user: the IP address of the user.
        """
        return self.app.test_client().get(
            f"/{target}",
            headers={"Accept-Language": language, "User-Agent": BROWSER},
            environ_overrides={"REMOTE_ADDR": user},
        )

    def close(self) -> None:
        """Send all pending acknowledgments, and end the threads of the resolver."""
        self._service.close(PATIENCE)
