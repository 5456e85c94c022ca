"""An Archive that registers its items is resolved like an Archive that the resolver asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from support import web
from support.archives import archive_of, close, import_records, make_app
from support.databases import new_database
from support.registries import CHEAP

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.joining.registry_client import build_registration
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.pairs import encode_word
from flask_ibi_archive.core.protocol.registry_2008.model import (
    Credentials,
    RegisterActor,
    RegisterDocument,
)
from flask_ibi_archive.core.resolution.persistent_url import parse_persistent_url
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.registry_2008.document_registry import DocumentRegistry
from flask_ibi_archive.testing.servers import LoopbackResolver

ACTOR = Credentials("dpi.inpe.br/banon/2001/01.11.16.21", "12xY3z")
IP = "150.163.34.243"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """An Archive with the items of the shelf."""
    folder = tmp_path_factory.mktemp("actor")
    with new_database("sqlite", folder, ready=True) as uri:
        app = make_app(uri, folder)
        archive_of(app).init()
        import_records(archive_of(app), web.shelf(folder / "sources"))
        yield archive_of(app)
        close(app)


@pytest.fixture(scope="module")
def requests(archive: Archive) -> dict[str, RegisterDocument]:
    """The requests for all items that can be registered, by the identifier of the item."""
    found = {}
    for item in archive.find():
        ibi = item.record.identifiers[0]
        with suppress(StorageError):
            found[ibi] = build_registration(archive, ibi, ACTOR)
    return found


@pytest.fixture(scope="module")
def resolver(
    requests: dict[str, RegisterDocument], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LoopbackResolver]:
    """A resolver without Archives, in whose registry the Archive has registered its items."""
    resolver = LoopbackResolver(
        tmp_path_factory.mktemp("resolver"),
        IBI_RESOLVER_REGISTRY=True,
        IBI_RESOLVER_REGISTRY_MINT_HOST="registry.example.org",
    )
    registry: DocumentRegistry = resolver.app.extensions["ibi_resolver"].resolver.document_registry
    registry.cost, registry.look_up = CHEAP, lambda host: [IP]
    actor = RegisterActor("a", IP, "b.br", 80, "a@b.br", ACTOR.password, ACTOR.actor_id)
    registry.register_actor(actor, IP)
    for request in requests.values():
        registry.register_document(request, IP)
    yield resolver
    resolver.close()


@pytest.mark.parametrize("modifier", ["", ":", ":(oai_dc)", "!", "!:", "!:(oai_dc)"])
def test_a_registered_item_leads_to_the_url_that_the_archive_answers(
    archive: Archive,
    requests: dict[str, RegisterDocument],
    resolver: LoopbackResolver,
    modifier: str,
) -> None:
    compared = 0
    for ibi in requests:
        wanted = parse_persistent_url(f"http://urlib.net/{ibi}{modifier}")
        request = UrlRequest(wanted.ibi, (web.OUTSIDE,), verbs=wanted.verbs)
        answered = dict(archive.list_urls(request)).get(f"url{wanted.verbs.relation.name}")
        found = resolver.get(f"{ibi}{modifier}", user=web.OUTSIDE).location
        assert found == (None if answered is None else encode_word(str(answered))), ibi
        compared += answered is not None
    assert compared >= 5
