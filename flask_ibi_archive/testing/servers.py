"""Servers of tests: an app on the loopback interface, and a resolver that asks such apps."""

from __future__ import annotations

import socket
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from flask import Flask
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server
from werkzeug.test import TestResponse

from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.inclusion import INCLUSION_REQUEST, RegistrationRequest
from flask_ibi_archive.testing.asking import BROWSER

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.resolver.service import ResolverService

HOST = "127.0.0.1"
#: The settings that allow Archives on this computer.
LOOPBACK = ("127.0.0.0/8",)
KEY = "1234567890"
#: The cost of a fast hash of the registration key.
CHEAP = 2**7
#: A time limit in seconds that is never reached, even on a slow computer.
PATIENCE = 60


class _QuietHandler(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:
        """Write nothing."""


class LoopbackServer:
    """A server of one app on the loopback interface.

    The port is already reserved when the app does not exist yet, because the app needs its address
    as a setting.
    """

    def __init__(self) -> None:
        self._socket = socket.create_server((HOST, 0))
        self.address = f"{HOST}:{self._socket.getsockname()[1]}"
        self._server: BaseWSGIServer | None = None
        self._thread: Thread | None = None

    @property
    def url(self) -> str:
        """The beginning of the URLs of the app, without a slash at the end."""
        return f"http://{self.address}"

    def serve(self, app: Flask) -> None:
        """Answer requests with an app until :meth:`close`."""
        self._server = make_server(
            HOST,
            self._socket.getsockname()[1],
            app,
            threaded=True,
            request_handler=_QuietHandler,
            fd=self._socket.fileno(),
        )
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        """Stop the server."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server = None
        self._socket.close()


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
        from flask_ibi_archive.resolver.archive_registry import Registry

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
