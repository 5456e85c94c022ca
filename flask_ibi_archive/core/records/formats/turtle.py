"""The JSON-LD of a work in Turtle, as one triple on each line, which is also N-Triples.

The context of schema.org, which JSON-LD names, is applied here, because its document of 200 KB
would be a request to another host.

Sources: https://www.w3.org/TR/n-triples/; https://schema.org/docs/jsonldcontext.jsonld.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any
from urllib.parse import quote

from flask_ibi_archive.core.records.formats.json_ld import describe_work
from flask_ibi_archive.core.records.work import Work

_VOCABULARY = "http://schema.org/"
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_BOOLEAN = "<http://www.w3.org/2001/XMLSchema#boolean>"
#: The properties whose texts the context declares as URLs, and as dates.
_URLS = frozenset({"url", "license", "sameAs", "contentUrl"})
_DATES = frozenset({"datePublished", "dateCreated", "dateModified"})
#: Matches the characters that an IRI must not contain, even as an escape sequence.
_NOT_IN_IRI = re.compile(r"[\x00-\x20<>\"{}|^`\\]")


def write_turtle(work: Work) -> str:
    """Return the description of a work as a Turtle document."""
    found = describe_work(work)
    del found["@context"]
    _, lines = _format_node(found, count(1))
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def _format_node(node: dict[str, Any], numbers: Iterator[int]) -> tuple[str, list[str]]:
    """Return the name of a node, and the triples about it and the nodes in it."""
    subject = _format_iri(node["@id"]) if "@id" in node else f"_:b{next(numbers)}"
    lines = [f"{subject} {_TYPE} <{_VOCABULARY}{node['@type']}> ."]
    for name, values in node.items():
        for value in values if isinstance(values, list) else [values]:
            if name.startswith("@"):
                continue
            if isinstance(value, dict):
                target, more = _format_node(value, numbers)
                lines += more
            else:
                target = _format_value(name, value)
            lines.append(f"{subject} <{_VOCABULARY}{name}> {target} .")
    return subject, lines


def _format_value(name: str, value: str | bool) -> str:
    if isinstance(value, bool):
        return f'"{str(value).lower()}"^^{_BOOLEAN}'
    if name in _URLS:
        return _format_iri(value)
    # the escape sequences of JSON are also those of Turtle, except for characters beyond U+FFFF
    literal = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    return f"{literal}^^<{_VOCABULARY}Date>" if name in _DATES else literal


def _format_iri(text: str) -> str:
    return f"<{_NOT_IN_IRI.sub(lambda found: quote(found[0]), text)}>"
