"""The official JSON schema of DataCite, which the package ``datacite`` contains."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jsonschema import Draft201909Validator
from lxml import etree

#: What kernels 4.6 and 4.7 add to the schema of kernel 4.5, as far as we write it.
NEW_TERMS = {
    "relationType": ["HasTranslation", "IsTranslationOf", "Other"],
    "resourceTypeGeneral": ["Poster", "Presentation"],
}
#: The names of values in JSON, if they differ from those in XML.
NAMES = {
    "creatorName": "name",
    "contributorName": "name",
    "rightsURI": "rightsUri",
    "schemeURI": "schemeUri",
    "{http://www.w3.org/XML/1998/namespace}lang": "lang",
}


@cache
def load_validator() -> Draft201909Validator:
    """Return a validator; the package itself is not imported, because it needs the network."""
    spec = find_spec("datacite")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    [folder] = spec.submodule_search_locations
    schema = json.loads((Path(folder) / "schemas/datacite-v4.5.json").read_text(encoding="utf-8"))
    for name, terms in NEW_TERMS.items():
        schema["definitions"][name]["enum"] += terms
    schema["definitions"]["relatedObject"]["properties"]["relationTypeInformation"] = {}
    Draft201909Validator.check_schema(schema)
    return Draft201909Validator(schema)


def read_json(document: str) -> dict[str, Any]:
    """Return the values of an XML document as the JSON schema names them."""
    found: dict[str, Any] = {"schemaVersion": "http://datacite.org/schema/kernel-4"}
    for one in etree.fromstring(document.encode()):
        name = etree.QName(one).localname
        if name == "identifier":
            found[str(one.get("identifierType")).lower()] = one.text
        elif name == "publisher":
            found[name] = {"name": one.text}
        elif name == "resourceType":
            found["types"] = _read_member(one)
        elif name in ("sizes", "formats"):
            found[name] = [member.text or "" for member in one]
        elif len(one):
            found[name] = [_read_member(member) for member in one]
        else:
            found[name] = one.text
    return found


def _read_member(one: Any) -> dict[str, Any]:
    found: dict[str, Any] = {NAMES.get(name, name): value for name, value in one.attrib.items()}
    name = etree.QName(one).localname
    if not len(one):
        return {**found, NAMES.get(name, name): one.text or ""}
    for part in one:
        name = etree.QName(part).localname
        if name == "nameIdentifier":
            found.setdefault("nameIdentifiers", []).append(_read_member(part))
        elif name == "titles":
            found[name] = [_read_member(title) for title in part]
        elif name == "relatedItemIdentifier":
            found[name] = _read_member(part)
        else:
            found |= _read_member(part)
    return found
