"""XML schemas in ``tests/data/schemas``. Schemas that they import by a URL are read there, too."""

from __future__ import annotations

from typing import Any

from lxml import etree

from support.commands import ROOT

FOLDER = ROOT / "tests/data/schemas"


class _Folder(etree.Resolver):
    def resolve(self, system_url: str | None, public_id: str | None, context: Any) -> Any:
        """Return the file that has the name in a URL; nothing is read from the network."""
        name = (system_url or "").rpartition("/")[2]
        return self.resolve_filename(str(FOLDER / name), context)


def load_schema(name: str) -> etree.XMLSchema:
    """Return a schema by the name of its file without the extension."""
    parser = etree.XMLParser(no_network=True)
    parser.resolvers.add(_Folder())
    return etree.XMLSchema(etree.parse(FOLDER / f"{name}.xsd", parser))
