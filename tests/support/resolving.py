"""Resolvers with Archives on loopback, which answer from tables and record the requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

from flask import Flask

from flask_ibi_archive.core.protocol.inclusion import InclusionConfirmationRequest
from flask_ibi_archive.core.protocol.languages import parse_accept_language
from flask_ibi_archive.core.protocol.messages import Acknowledgment, UrlRequest, parse_request
from flask_ibi_archive.core.protocol.pairs import decode_query_string
from flask_ibi_archive.core.protocol.relations import format_verb_list
from flask_ibi_archive.core.resolution.persistent_url import ResolutionRequest, read_persistent_url
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.archives import Registry
from flask_ibi_archive.resolver.resolving import ResolverService
from support.archive_servers import Servers, http
from support.loopback import HERE, PATIENCE
from support.registries import KEY, a_config, a_registry, a_request, copy_tables, resolver_database

X, Y, Z = (f"a.br/{letter}/2001/01.01.00.00" for letter in "xyz")
USER = "150.163.2.175"
URL_KEY = "1234567890-0123456789"
ORIGINAL = "?ibiurl.requireditemstatus=Original"
SIGNS = {"GetLastEdition": "!", "GetTranslation": "+", "GetMetadata": ":", " ": ""}

#: The answer of an Archive to each question, which is written as a persistent URL
#: (``IBI!:(oai_dc)/path``). Other items are unknown. None: no response; bytes: a whole response.
Table: TypeAlias = Mapping[str, "str | bytes | None"]


#: Creates Archives that answer from tables, and a resolver that has included them.
Run: TypeAlias = "Callable[..., tuple[ResolverService, list[TableArchive]]]"


def leads(url: str, state: str = "Original", relation: str = "", key: str = URL_KEY) -> str:
    """Return the answer of an Archive that has the item."""
    return "\r\n".join(
        [
            f"contenttype{relation} Data",
            f"state{relation} {state}",
            f"url{relation} {url}",
            *([f"urlkey {key}"] if key else []),
        ]
    )


def goes_on(ibi: str) -> str:
    """Return the answer of an Archive that only knows the next edition of the item."""
    return f"ibi.nextedition {{rep {ibi}}}"


class TableArchive:
    """An Archive on loopback.

    :param table: the answers.
    :param number: a number that makes the IBI of its service unique.
    """

    def __init__(self, hosts: Servers, number: int, table: Table) -> None:
        self.table = dict(table)
        self.service = f"a.br/service/2000/01.01.00.{number:02}"
        self.server = hosts.add(self)
        self.address = self.server.address
        self.thanks: SimpleQueue[Acknowledgment] = SimpleQueue()

    def __call__(self, target: str, head: str) -> bytes | None:
        """Answer a request."""
        path, _, query = target.partition("?")
        if path != f"/{self.service}":
            return http("alert {no such path}", "404 Not Found")
        request = parse_request(decode_query_string(query))
        if isinstance(request, Acknowledgment):
            self.thanks.put(request)
            return http("notice {acknowledgment received}")
        if isinstance(request, InclusionConfirmationRequest):
            return http("confirmation yes")
        found = self.table.get(name_of(request), "")
        return http(found) if isinstance(found, str) else found

    @property
    def questions(self) -> list[str]:
        """The questions received so far."""
        requests = (parse_request(decode_query_string(one.partition("?")[2])) for one in self.asked)
        return [name_of(request) for request in requests if isinstance(request, UrlRequest)]

    @property
    def asked(self) -> list[str]:
        """The targets of all requests received so far."""
        return list(self.server.asked)

    def was_thanked(self) -> Acknowledgment:
        """Return the next acknowledgment that was received."""
        return self.thanks.get(timeout=PATIENCE)


def name_of(request: UrlRequest) -> str:
    """Return a question in the notation of the tables."""
    verbs = format_verb_list(request.verbs)
    for verb, sign in SIGNS.items():
        verbs = verbs.replace(verb, sign)
    return f"{request.ibi.text}{verbs}{request.filepath}"


def archives_of(hosts: Servers, *tables: Table) -> list[TableArchive]:
    """Start an Archive for each table."""
    return [TableArchive(hosts, number, table) for number, table in enumerate(tables, 1)]


def include(registry: Registry, archives: Sequence[TableArchive]) -> None:
    """Register and include Archives."""
    for archive in archives:
        registry.register(archive.service, KEY)
        registry.process(a_request(service_ibi=archive.service, address=archive.address))


@contextmanager
def resolver_over(
    archives: Sequence[TableArchive], uri: str = "sqlite://", **config: Any
) -> Iterator[ResolverService]:
    """Yield a resolver with included Archives; its default time limits are very long."""
    patient = {"IBI_RESOLVER_ARCHIVE_TIMEOUT": PATIENCE, "IBI_RESOLVER_DEADLINE": PATIENCE}
    with resolver_database(uri) as database:
        include(a_registry(database), archives)
        resolver = ResolverService(a_config(**{**patient, **config}), database)
        try:
            yield resolver
        finally:
            resolver.close()


@contextmanager
def app_over(
    archives: Sequence[TableArchive], folder: Path, app: Flask | None = None, **config: Any
) -> Iterator[Flask]:
    """Yield an app with a resolver that has included Archives.

    :param app: an existing app to use.
    """
    app = app or Flask("resolver", instance_path=str(folder))
    app.config.from_mapping(
        TESTING=True,
        PROPAGATE_EXCEPTIONS=True,
        IBI_RESOLVER_DATABASE_URI="sqlite://",
        IBI_INNER_HOSTS=HERE,
        IBI_RESOLVER_ARCHIVE_TIMEOUT=PATIENCE,
        IBI_RESOLVER_DEADLINE=PATIENCE,
    )
    app.config.from_mapping(config)
    IBIResolver(app)
    resolver = resolver_of(app)
    try:
        if app.config["IBI_RESOLVER_DATABASE_URI"] == "sqlite://":
            copy_tables(resolver.database)
        resolver.init()
        include(a_registry(resolver.database), archives)
        yield app
    finally:
        resolver.close()


def resolver_of(app: Flask) -> ResolverService:
    """Return the resolver of an app."""
    found: ResolverService = app.extensions["ibi_resolver"].resolver
    return found


def wants(
    text: str, language: str | None = None, user_agent: str | None = "Mozilla/5.0"
) -> ResolutionRequest:
    """Return the request of a reader for a persistent URL."""
    return ResolutionRequest(
        read_persistent_url(text),
        f"http://urlib.net:80/{text}",
        (USER,),
        parse_accept_language(language),
        user_agent,
    )
