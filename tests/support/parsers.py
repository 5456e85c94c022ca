"""All parsers of texts from users and other servers, and hostile texts for these parsers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress

from flask_ibi_archive.archive.accesses.visitors import is_robot_access
from flask_ibi_archive.archive.service.archive_service import URLKeys
from flask_ibi_archive.core.identifiers.dates import parse_decimal, parse_granularity
from flask_ibi_archive.core.identifiers.grammar import (
    canonical_address,
    check_host,
    match_identifier,
)
from flask_ibi_archive.core.identifiers.parse import (
    decode_identifier,
    explain_refusal,
    parse_identifier,
    suggest_identifier,
)
from flask_ibi_archive.core.protocol.hosts import (
    InnerHosts,
    check_url,
    is_archive_address,
    is_host,
    is_host_and_port,
    is_public_host,
    parse_client_addresses,
)
from flask_ibi_archive.core.protocol.inclusion import (
    INCLUSION_REQUEST,
    is_key,
    parse_registration_answer,
    parse_registration_request,
)
from flask_ibi_archive.core.protocol.languages import (
    find_language,
    parse_accept_language,
    parse_language,
)
from flask_ibi_archive.core.protocol.messages import parse_ibi_forms, parse_request
from flask_ibi_archive.core.protocol.pairs import (
    contains_key,
    decode_query_string,
    decode_url,
    encode_url,
    encode_word,
    list_candidate_paths,
    pairs_as_dict,
    parse_pairs,
)
from flask_ibi_archive.core.protocol.relations import (
    parse_relation,
    parse_relation_pattern,
    parse_verb,
    parse_verb_list,
)
from flask_ibi_archive.core.records.record import parse_line
from flask_ibi_archive.core.registry_2008 import parse_registry_request
from flask_ibi_archive.core.resolution.answer import (
    Answer,
    ArchiveSource,
    Question,
    find_usable_url,
    is_same_address,
    parse_answer,
)
from flask_ibi_archive.core.resolution.persistent_url import (
    parse_persistent_target,
    parse_persistent_url,
    read_persistent_url,
)
from flask_ibi_archive.errors import IBIError
from flask_ibi_archive.server.config import parse_networks
from flask_ibi_archive.server.http.transport import find_alert
from flask_ibi_archive.server.web.hooks import begins_with_ibi, is_like_persistent_url
from flask_ibi_archive.server.web.requests import find_address, forwarded_addresses

Parser = Callable[[str], object]

IBI = parse_identifier("8JMKD3MGP8W/35MMLL8")
ITEM = {"rep": "sid.inpe.br/mtc-m18@80/2009/07.21.13.23"}
ARCHIVE = ArchiveSource("sid.inpe.br/mtc-m18@80/2008/03.17.15.17", "a.br")
#: The fields of a record, each with a function that puts a text into its value.
FIELDS: dict[str, Callable[[str], object]] = {
    "rep": lambda text: text,
    "ibip": lambda text: text,
    "aliases": lambda text: [text],
    "same_as": lambda text: [text],
    "state": lambda text: text,
    "timestamp": lambda text: text,
    "language": lambda text: text,
    "next_edition": lambda text: text,
    "translations": lambda text: {text: text},
    "metadata": lambda text: {"url": text, "formats": {text: text}},
    "files": lambda text: [{"path": text, "url": text}],
    "access": lambda text: {"networks": [text]},
    "tombstone": lambda text: {"reason": text, "successor": text},
}


def in_a_message(parse: Callable[[list[tuple[str, str]]], object], *names: str) -> Parser:
    """Return a parser whose text becomes the value of several pairs of a message."""
    return lambda text: parse([(name, text) for name in names])


def in_a_field(name: str) -> Parser:
    """Return a parser whose text becomes the value of a field of a record."""
    return lambda text: parse_line(json.dumps({**ITEM, name: FIELDS[name](text)}))


def read_answer(text: str) -> object:
    """Parse a text as the answer of an Archive."""
    pairs = pairs_as_dict(parse_pairs(text))
    verbs = parse_verb_list("GetTranslation")
    return parse_answer(Answer(ARCHIVE, Question(IBI, verbs), pairs))


def request_of(subject: str) -> Callable[[list[tuple[str, str]]], object]:
    """Return a parser of the pairs of a request with a subject."""
    return lambda pairs: parse_request([("servicesubject", subject), *pairs])


def in_a_registration(name: str) -> Parser:
    """Return a parser whose text becomes the value of an argument of RegisterDocument."""
    return lambda text: parse_registry_request(list({**DOCUMENT, name: text}.items()))


DOCUMENT = {
    "verb": "RegisterDocument",
    "actorID": ITEM["rep"],
    "password": "secret",
    "documentID": ITEM["rep"],
    "documentURL": "http://a.br/",
    "documentLastUpdate": "2008-07-17T17:22:06Z",
    "metadataURL": "http://a.br/oai",
    "metadataLastUpdate": "2008-07-17T17:22:06Z",
    "metadataFormat": "oai_dc",
}

USER = (
    "clientinformation.ipaddress",
    "parsedibiurl.ibi",
    "parsedibiurl.verblist",
    "parsedibiurl.filepath",
)
ACKNOWLEDGED = ("urlkey", "ibi", "url", "state", "contenttype", "url.persistent")

ALL_NETWORKS = parse_networks(["::/0", "0.0.0.0/0"])

PARSERS: dict[str, Parser] = {
    "an identifier": parse_identifier,
    "an identifier, matched": match_identifier,
    "an identifier, explained": explain_refusal,
    "an identifier, repaired": suggest_identifier,
    "an identifier, decoded": lambda text: decode_identifier(parse_identifier(text)),
    "a decimal": parse_decimal,
    "a granularity": parse_granularity,
    "an address": canonical_address,
    "a host to mint with": check_host,
    "an archive address": is_archive_address,
    "a host": is_host,
    "a Host header": is_host_and_port,
    "a public host": is_public_host,
    "an inner host": InnerHosts().__contains__,
    "a key": is_key,
    "a URL key": URLKeys(["secret"], 3600).read,
    "Accept-Language": parse_accept_language,
    "a language picked": lambda text: find_language(parse_accept_language(text), ["en", "pt-BR"]),
    "a language": parse_language,
    "addresses": parse_client_addresses,
    "forms of an IBI": lambda text: parse_ibi_forms(text.split()),
    "an answer": read_answer,
    "pairs": parse_pairs,
    "a word": encode_word,
    "a path": list_candidate_paths,
    "a persistent URL": lambda text: parse_persistent_url("http://urlib.net/" + text),
    "a persistent target": parse_persistent_target,
    "what was typed": read_persistent_url,
    "a query": decode_query_string,
    "a URL decoded": decode_url,
    "a URL encoded": encode_url,
    "a relation": parse_relation.__wrapped__,
    "a pattern of relations": parse_relation_pattern,
    "a verb": parse_verb,
    "verbs": parse_verb_list.__wrapped__,
    "a URL of a record": lambda text: check_url("http://" + text),
    "arguments of an actor": lambda text: parse_registry_request(
        decode_query_string(text.encode("utf-8", "replace"))
    ),
    **{f"an actor's {name}": in_a_registration(name) for name in DOCUMENT},
    "a usable URL": lambda text: find_usable_url(["http://a.br/" + text], "a.br"),
    "a usable host": lambda text: find_usable_url(["http://" + text], "a.br"),
    "the same address": lambda text: is_same_address("http://a.br/" + text, "http://a.br/" + text),
    "a urlRequest": in_a_message(request_of("urlRequest"), *USER),
    "an acknowledgment": in_a_message(request_of("acknowledgment"), *ACKNOWLEDGED),
    "a registration request": lambda text: parse_registration_request(
        [("servicesubject", INCLUSION_REQUEST), ("archiveaddress", text)]
    ),
    "a query of a registration": lambda text: parse_registration_request(decode_query_string(text)),
    "a registration answer": lambda text: parse_registration_answer(
        INCLUSION_REQUEST, text.encode("utf-8", "replace")
    ),
    "an alert found": lambda text: find_alert(text.encode("utf-8", "replace")),
    "a key in a log": contains_key,
    "a line of records": parse_line,
    **{f"the field {name}": in_a_field(name) for name in FIELDS},
    "X-Forwarded-For": lambda text: forwarded_addresses("127.0.0.1", [text], ALL_NETWORKS),
    "a client address": find_address,
    "a User-Agent": lambda text: is_robot_access(text, text),
    "beside pages of a host": begins_with_ibi,
    "beside pages of a resolver": is_like_persistent_url,
}

#: The units that are repeated to make a hostile text.
UNITS = [
    "a", "a.", "a-", "a/", ".", "/", "-", "@", ":", "!", "+", "(", "+(pt)", "%", "%2F", "%41",
    "&", "=", "a=b&", "a=b+c&", "{", "}", "{ ", "{}", "a {b c} ", " ", "  a", "\t", "\r\n", "\n",
    ",", "en,", "en;q=1,", ";q=", "[", "]", "[]", '{"a":', '"', "'", "\\", "\\'", "0", "1", "9",
    "2", "W", "2W", "X", "V", "8B5S", "\xe9", "\ud800", "\x00", "ibi/", "rep/", "http:/x/",
    "http://", "upn:EEAFFE:", "?", "#", ".translation", ".translation(pt)", ".lastedition",
    "GetLastEdition+", "GetFileList ", "1.", "::", "ffff:", "1.2.3.4 ", "1.2.3.4,", "2001.01/",
    "a.b/c/2001/01.", "rep a ", "urlkey 1 ", "bot ",
]  # fmt: skip
#: The texts that precede the repeated units.
FRONTS = ("", "/", "8JMKD3MGP8W/35MMLL8")


def hostile_texts(length: int) -> Iterator[str]:
    """Yield hostile texts of a length in bytes of UTF-8."""
    for unit in UNITS:
        for front in FRONTS:
            size = len(unit.encode("utf-8", "surrogatepass"))
            yield front + unit * ((length - len(front)) // size)


def try_to_parse(parse: Parser, text: str) -> None:
    """Parse a text; the parser may raise a ValueError or an IBIError."""
    with suppress(ValueError, IBIError):
        parse(text)
