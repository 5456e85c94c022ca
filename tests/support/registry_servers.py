"""A resolver with a document registry, as a real server on loopback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from flask_ibi_archive.resolver.registry_2008.registry import DocumentRegistry
from flask_ibi_archive.testing.servers import LoopbackResolver
from support.loopback import serving
from support.registries import CHEAP

#: The hosts of actors in the DNS of the tests.
HOSTS = {"hermes.dpi.inpe.br": "150.163.2.14", "md-m09.sid.inpe.br": "150.163.34.243"}
MINT_HOST = "registry.example.org"


@contextmanager
def registry_server(folder: Path, hosts: Mapping[str, str] = HOSTS) -> Iterator[str]:
    """Serve a resolver with a registry, and yield the URL of the registry.

    :param hosts: the host names in the DNS and their IP addresses.
    """
    resolver = LoopbackResolver(
        folder, IBI_RESOLVER_REGISTRY=True, IBI_RESOLVER_REGISTRY_MINT_HOST=MINT_HOST
    )
    registry: DocumentRegistry = resolver.app.extensions["ibi_resolver"].resolver.document_registry
    registry.cost = CHEAP
    registry.look_up = lambda host: [hosts[host]] if host in hosts else []
    try:
        with serving(resolver.app) as address:
            yield f"http://{address}/ibi/registry"
    finally:
        resolver.close()
