"""No parser of texts from users and other servers fails or needs more than linear time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_ibi_archive.archive.accesses.rows import is_robot_access
from flask_ibi_archive.archive.service.url_keys import URLKeys
from flask_ibi_archive.core import registry_2008
from flask_ibi_archive.core.identifiers import dates, grammar, parse
from flask_ibi_archive.core.protocol import hosts, inclusion, languages, messages, pairs, relations
from flask_ibi_archive.core.records.record import parse_record, read_json
from flask_ibi_archive.core.resolution import answer, persistent_url
from flask_ibi_archive.errors import IBIError
from flask_ibi_archive.server.config import parse_networks
from flask_ibi_archive.server.http.transport import find_alert
from flask_ibi_archive.server.web import hooks, requests

Parser = Callable[[str], object]

ITEM = {"rep": "sid.inpe.br/mtc-m18@80/2009/07.21.13.23"}
ARCHIVE = answer.ArchiveSource("sid.inpe.br/mtc-m18@80/2008/03.17.15.17", "a.br")
IBI = parse.parse_identifier("8JMKD3MGP8W/35MMLL8")
DOCUMENT = {
    "verb": "RegisterDocument", "actorID": ITEM["rep"], "password": "secret",
    "documentID": ITEM["rep"], "documentURL": "http://a.br/",
    "documentLastUpdate": "2008-07-17T17:22:06Z", "metadataURL": "http://a.br/oai",
    "metadataLastUpdate": "2008-07-17T17:22:06Z", "metadataFormat": "oai_dc",
}  # fmt: skip
#: The fields of a record with a place for a text.
FIELDS = {
    **dict.fromkeys(("rep", "ibip", "state", "timestamp", "language", "next_edition"), "T"),
    **{name: ["T"] for name in ("aliases", "same_as")},
    "translations": {"T": "T"},
    "metadata": {"url": "T", "formats": {"T": "T"}},
    "files": [{"path": "T", "url": "T"}],
    "access": {"networks": ["T"]},
    "tombstone": {"reason": "T", "successor": "T"},
}
MESSAGES = {
    "urlRequest": "clientinformation.ipaddress parsedibiurl.ibi parsedibiurl.verblist"
    " parsedibiurl.filepath",
    "acknowledgment": "urlkey ibi url state contenttype url.persistent",
}
ALL_NETWORKS = parse_networks(["::/0", "0.0.0.0/0"])


def in_a_field(name: str) -> Parser:
    template = json.dumps({**ITEM, name: FIELDS[name]})
    return lambda text: parse_record(read_json(template.replace('"T"', json.dumps(text))))


def in_a_message(subject: str, names: str) -> Parser:
    return lambda text: messages.parse_request(
        [("servicesubject", subject), *((name, text) for name in names.split())]
    )


def in_a_registration(name: str) -> Parser:
    return lambda text: registry_2008.parse_registry_request([*{**DOCUMENT, name: text}.items()])


def read_answer(text: str) -> object:
    question = answer.Question(IBI, relations.parse_verb_list("GetTranslation"))
    found = pairs.pairs_as_dict(pairs.parse_pairs(text))
    return answer.parse_answer(answer.Answer(ARCHIVE, question, found))


PARSERS: list[Parser] = [
    parse.parse_identifier, grammar.match_identifier, parse.explain_refusal,
    parse.suggest_identifier, dates.parse_decimal, dates.parse_granularity,
    grammar.canonical_address, grammar.check_host, hosts.is_archive_address, hosts.is_host,
    hosts.is_host_and_port, hosts.is_public_host, hosts.InnerHosts().__contains__,
    inclusion.is_key, URLKeys(["secret"], 3600).read, languages.parse_accept_language,
    languages.parse_language, hosts.parse_client_addresses, read_answer, pairs.parse_pairs,
    pairs.encode_word, pairs.list_candidate_paths, persistent_url.parse_persistent_target,
    persistent_url.read_persistent_url, pairs.decode_query_string, pairs.decode_url,
    pairs.encode_url, relations.parse_relation.__wrapped__, relations.parse_relation_pattern,
    relations.parse_verb, relations.parse_verb_list.__wrapped__, pairs.contains_key, read_json,
    requests.find_address, hooks.begins_with_ibi, hooks.is_like_persistent_url,
    *map(in_a_field, FIELDS),
    *map(in_a_registration, DOCUMENT),
    *(in_a_message(subject, names) for subject, names in MESSAGES.items()),
    lambda text: parse.decode_identifier(parse.parse_identifier(text)),
    lambda text: languages.find_language(languages.parse_accept_language(text), ["en", "pt-BR"]),
    lambda text: messages.parse_ibi_forms(text.split()),
    lambda text: persistent_url.parse_persistent_url("http://urlib.net/" + text),
    lambda text: hosts.check_url("http://" + text),
    lambda text: registry_2008.parse_registry_request(pairs.decode_query_string(text)),
    lambda text: answer.find_usable_url(["http://a.br/" + text], "a.br"),
    lambda text: answer.find_usable_url(["http://" + text], "a.br"),
    lambda text: answer.is_same_address("http://a.br/" + text, "http://a.br/" + text),
    lambda text: inclusion.parse_registration_request(pairs.decode_query_string(text)),
    lambda text: inclusion.parse_registration_answer("inclusionRequest", pairs.to_bytes(text)),
    lambda text: find_alert(pairs.to_bytes(text)),
    lambda text: requests.forwarded_addresses("127.0.0.1", [text], ALL_NETWORKS),
    lambda text: is_robot_access(text, text),
]  # fmt: skip
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
SHORT, FACTOR = 1000, 4
#: A time of fewer seconds is too short for a comparison.
TOO_FAST = 0.001
#: Linear time grows by FACTOR, and quadratic time by FACTOR * FACTOR; the limit is in between.
MOST = 9


def hostile_texts(length: int) -> Iterator[str]:
    """Yield hostile texts of a length in bytes of UTF-8."""
    for unit in UNITS:
        for front in ("", "/", "8JMKD3MGP8W/35MMLL8"):
            size = len(unit.encode("utf-8", "surrogatepass"))
            yield front + unit * ((length - len(front)) // size)


def try_to_parse(parse: Parser, text: str) -> None:
    """Parse a text; the message of a ValueError or an IBIError must be one line."""
    message = ""
    try:
        parse(text)
    except (ValueError, IBIError) as error:
        message = str(error)
    assert message.isprintable(), text


def find_steep_text(parse: Parser) -> str | None:
    """Return a text for which a parser needs more than linear time, or None."""

    def measure(text: str, runs: int = 4) -> float:
        taken = []
        for _ in range(runs):
            begun = time.process_time()
            try_to_parse(parse, text)
            taken.append(time.process_time() - begun)
        return min(taken)

    for short, long in zip(hostile_texts(SHORT), hostile_texts(FACTOR * SHORT), strict=True):
        if measure(long, 1) > TOO_FAST and measure(long) > MOST * measure(short):
            return short
    return None


@pytest.mark.parametrize("number", range(len(PARSERS)))
def test_a_parser_accepts_a_hostile_text_or_raises_a_value_error(number: int) -> None:
    for text in hostile_texts(200):
        try_to_parse(PARSERS[number], text)


@given(st.text() | st.lists(st.sampled_from(UNITS)).map("".join))
def test_any_text_is_parsed_or_refused_in_one_line(text: str) -> None:
    for parse_text in PARSERS:
        try_to_parse(parse_text, text)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PARSERS)))
def test_the_time_of_a_parser_grows_linearly(number: int) -> None:
    assert find_steep_text(PARSERS[number]) is None


@pytest.mark.slow
def test_a_quadratic_parser_is_found() -> None:
    def count_pairs(text: str) -> int:
        return sum(text.count(text[place:]) for place in range(0, len(text), 2))

    assert find_steep_text(count_pairs) is not None
