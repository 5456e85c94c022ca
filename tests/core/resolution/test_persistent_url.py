"""Tests the parsing and formatting of persistent URLs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.identifier_strategies import ibips, legacies, repository_names
from support.vectors import load
from support.verb_lists import VERB_LISTS

from flask_ibi_archive.core.identifiers.grammar import match_identifier
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.relations import (
    VerbList,
    format_verb_list,
    parse_relation,
    parse_verb_list,
)
from flask_ibi_archive.core.resolution.persistent_url import (
    MAX_PATH,
    MAX_TARGET,
    PersistentUrl,
    add_query,
    format_persistent_target,
    is_persistent_url,
    parse_persistent_target,
    parse_persistent_url,
    read_persistent_url,
)
from flask_ibi_archive.errors import MalformedPersistentUrl, PeerProtocolError

#: The cases of the tests below.
CASES = load("resolution/persistent_url.json")

VECTORS = load("persistent_urls.json")
BASE = "http://urlib.net"
ITEM = "8JMKD3MGP8W/35MMLL8"
NAME = "iconet.com.br/banon/2009/09.09.22.01"


def read(target: str) -> PersistentUrl:
    return parse_persistent_target(f"/{target}")


def get_outcome(
    parse: Callable[[str], PersistentUrl], text: str
) -> PersistentUrl | MalformedPersistentUrl:
    """Return the parsed URL, or the error."""
    try:
        return parse(text)
    except MalformedPersistentUrl as refusal:
        return refusal


def refusal_of(target: str) -> MalformedPersistentUrl:
    with pytest.raises(MalformedPersistentUrl) as caught:
        read(target)
    assert str(caught.value).isprintable()
    return caught.value


# --- the examples of the documents ---------------------------------------------------------


@pytest.mark.rule("D3-02", "R61-01", "R61-05", "R61-06", "R61-07", "R61-08")
@pytest.mark.parametrize(("text", "parts"), VECTORS["parsed"] + VECTORS["in_use"])
def test_a_persistent_url_of_the_documents_is_read(text, parts):
    url = parse_persistent_url(text)
    assert url == PersistentUrl(
        parse_identifier(parts["ibi"]),
        parse_verb_list(" ".join(parts["verbs"])),
        parts["path"],
        parts["status"] == "Original",
    )
    assert format_verb_list(url.verbs).split() == parts["verbs"]


@pytest.mark.rule("R61-03")
@pytest.mark.parametrize("text", VECTORS["refused"])
def test_a_text_that_is_not_a_persistent_url_is_refused(text):
    with pytest.raises(MalformedPersistentUrl) as caught:
        parse_persistent_url(text)
    assert caught.value.url == text
    assert caught.value.rule in str(caught.value)
    assert isinstance(caught.value, PeerProtocolError)


@pytest.mark.rule("R61-02", "R61-03", "R61-04", "R61-08")
@pytest.mark.parametrize("ibi", [ITEM, NAME, "83LX3pFwXQZeBBx/hwiTk"])
@pytest.mark.parametrize(
    ("modifier", "relation"), CASES["every modifier has its relation after every form of ibi"]
)
def test_every_modifier_has_its_relation_after_every_form_of_ibi(ibi, modifier, relation):
    for rest in ("", "/a.pdf", "?x=1", "/a.pdf?x=1"):
        url = read(ibi + modifier + rest)
        assert (url.ibi.text, url.verbs) == (ibi, VerbList(parse_relation(relation)))
        assert format_persistent_target(url) == f"/{ibi}{modifier}{rest}"


@pytest.mark.rule("R62-03")
def test_example_6_8():
    url = parse_persistent_url(
        "http://urlib.net/LK47B6W/362SFKH+"
        "?ibiurl.requireditemstatus=Original&ibiurl.verblist=GetMetadata"
    )
    assert url.path == ""
    assert url.ibi.text == "LK47B6W/362SFKH"
    assert url.requires_original
    assert format_verb_list(url.verbs) == "GetTranslation GetMetadata"


# --- host, prefixes, encodings -------------------------------------------------------------------


@pytest.mark.rule("R61-01")
@pytest.mark.parametrize("base", CASES["any host is accepted"])
@pytest.mark.parametrize("ibi", [ITEM, NAME])
def test_any_host_is_accepted(base, ibi):
    assert parse_persistent_url(f"{base}/{ibi}!/a?x=1#page=3") == read(f"{ibi}!/a?x=1")


@pytest.mark.parametrize("text", CASES["a whole url begins with http or https"])
def test_a_whole_url_begins_with_http_or_https(text):
    with pytest.raises(
        MalformedPersistentUrl, match="a persistent URL must begin with http:// or https://"
    ):
        parse_persistent_url(text)


@pytest.mark.rule("R61-01")
@pytest.mark.parametrize("prefix", CASES["prefixes from citations are ignored"])
@pytest.mark.parametrize("ibi", [ITEM, NAME, "83LX3pFwXQZeBBx/hwiTk"])
def test_prefixes_from_citations_are_ignored(prefix, ibi):
    assert read(f"{prefix}{ibi}+(pt)/a/b?x=1") == read(f"{ibi}+(pt)/a/b?x=1")


@pytest.mark.rule("R61-02")
@pytest.mark.parametrize(
    ("target", "ibi", "path"), CASES["a repository name wins over an ibip with a path"]
)
def test_a_repository_name_wins_over_an_ibip_with_a_path(target, ibi, path):
    url = read(target)
    assert (url.ibi.text, url.path) == (ibi, path)
    assert read(target.replace("/", "%2F", ibi.count("/"))) == url


@pytest.mark.parametrize(("written", "path"), CASES["the encoding of a path does not change"])
@pytest.mark.parametrize("ibi", [ITEM, NAME, f"{NAME}!%3A"])
def test_the_encoding_of_a_path_does_not_change(ibi, written, path):
    assert read(ibi + written).path == path


# --- the query -----------------------------------------------------------------------------------


@pytest.mark.rule("R61-09", "R61-10")
@pytest.mark.parametrize(("query", "passed"), CASES["pairs without the prefix are passed on"])
def test_pairs_without_the_prefix_are_passed_on(query, passed):
    url = read(f"{ITEM}?{query}")
    assert url.passed_query == (query if passed is None else passed)
    assert url.passed_query.isascii()


@pytest.mark.rule("R61-11")
@pytest.mark.parametrize("value", CASES["a required status has one value"])
def test_a_required_status_has_one_value(value):
    error = refusal_of(f"{ITEM}?ibiurl.requireditemstatus{value}")
    assert error.rule.endswith("the only allowed value is Original")


@pytest.mark.rule("R61-11")
@pytest.mark.parametrize(
    "name", ["requireditemstatus=Original", "verblist=GetMetadata", "verblist="]
)
def test_a_repeated_pair_of_the_system_is_refused(name):
    error = refusal_of(f"{ITEM}?ibiurl.{name}&x=1&ibiurl.{name}")
    assert (
        error.rule == f"ibiurl.{name.partition('=')[0]} appears more than once; it must appear once"
    )


@pytest.mark.rule("R61-12", "R62-02")
@pytest.mark.parametrize(
    ("modifier", "verb_list", "verbs"),
    CASES["the verbs of the list follow those of the modifier without repetition"],
)
def test_the_verbs_of_the_list_follow_those_of_the_modifier_without_repetition(
    modifier, verb_list, verbs
):
    url = read(f"{ITEM}{modifier}?ibiurl.verblist={verb_list}")
    assert format_verb_list(url.verbs).split() == verbs


@pytest.mark.rule("R61-12", "R62-02")
@pytest.mark.parametrize(
    ("modifier", "verb_list", "reason"),
    CASES["the grammar of relations applies to all verbs together"],
)
def test_the_grammar_of_relations_applies_to_all_verbs_together(modifier, verb_list, reason):
    error = refusal_of(f"{ITEM}{modifier}?ibiurl.verblist={verb_list}")
    assert error.rule.startswith("ibiurl.verblist: ")
    assert reason in error.rule


@pytest.mark.rule("D3-02")
@pytest.mark.parametrize(
    ("written", "meant"), CASES["two question marks are the old form of a colon"]
)
def test_two_question_marks_are_the_old_form_of_a_colon(written, meant):
    for ibi in (ITEM, NAME):
        assert read(ibi + written) == read(ibi + meant)


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.rule("R61-03")
@pytest.mark.parametrize(("target", "reason"), CASES["an error names what is wrong"])
def test_an_error_names_what_is_wrong(target, reason):
    assert reason in refusal_of(target).rule


@pytest.mark.parametrize(
    ("target", "suggestion"), CASES["the identifier that was probably meant is suggested"]
)
def test_the_identifier_that_was_probably_meant_is_suggested(target, suggestion):
    error = refusal_of(target)
    assert error.suggestion == suggestion
    assert ("did you mean" in str(error)) is (suggestion is not None)


def test_a_target_has_at_most_eight_kibibytes():
    query = "a" * (MAX_TARGET - len(f"/{ITEM}?"))
    longest = f"/{ITEM}?{query}"
    assert parse_persistent_url(BASE + longest).passed_query == query
    # the second and the third are not longer, but their percent-encoded texts are
    for target in (
        *(longest + "a", longest[:-1] + "\u00e9", longest[:-2] + " "),
        f"/{ITEM}/{'a' * MAX_TARGET}",
    ):
        with pytest.raises(
            MalformedPersistentUrl, match="the URL is too long; at most 8192 characters"
        ):
            parse_persistent_url(BASE + target)


def test_a_path_has_at_most_four_kibibytes():
    """A message to an Archive contains the path; there, "&" becomes three characters."""
    longest = "/" + "a" * (MAX_PATH - 1)
    assert read(f"{ITEM}!{longest}?x=1").path == longest
    for path in (f"{longest}a", f"{longest[:-2]}&"):
        rule = refusal_of(f"{ITEM}!{path}?x=1").rule
        assert rule.startswith("the path after the IBI is too long; at most 4096 characters")


# --- writing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read_from", "written"), CASES["a persistent url is written in its canonical form"]
)
def test_a_persistent_url_is_written_in_its_canonical_form(read_from, written):
    assert format_persistent_target(read(read_from)) == written


def test_an_ibip_and_a_path_that_would_be_read_as_a_repository_name_are_not_written():
    ibi = parse_identifier("LK47B6W/362SFKH")
    with pytest.raises(ValueError, match="repository name lk47b6w/362sfkh/2009"):
        format_persistent_target(PersistentUrl(ibi, path="/2009/09.09.22.01/a"))
    url = PersistentUrl(ibi, parse_verb_list("GetLastEdition"), "/2009/09.09.22.01/a")
    assert parse_persistent_target(format_persistent_target(url)) == url


@pytest.mark.rule("R61-10")
@pytest.mark.parametrize(
    ("url", "query", "result"),
    CASES["a query is added after an existing query and before a fragment"],
)
def test_a_query_is_added_after_an_existing_query_and_before_a_fragment(url, query, result):
    assert add_query(url, query) == result


# --- properties ----------------------------------------------------------------------------------

IBIS = st.one_of(repository_names(), ibips, legacies).map(match_identifier).filter(bool)
BYTES = st.integers(0, 255).map(lambda byte: f"%{byte:02X}")
PATHS = st.one_of(
    st.just(""),
    st.lists(st.one_of(st.sampled_from("/aZ0-._~:@!$&'()*+,;="), BYTES), min_size=1).map(
        lambda characters: "/" + "".join(characters)
    ),
)
PIECES = (
    st.lists(st.one_of(st.sampled_from("/aZ0-._~:@!$'()*+,;=?"), BYTES), min_size=1)
    .map("".join)
    .filter(lambda piece: not piece.startswith("ibiurl."))
)
QUERIES = st.lists(PIECES, max_size=3).map("&".join)
URLS = st.builds(PersistentUrl, IBIS, VERB_LISTS, PATHS, st.booleans(), QUERIES)


def is_readable(url: PersistentUrl) -> bool:
    """Return whether the value can be written as a URL."""
    try:
        format_persistent_target(url)
    except ValueError:
        return False
    return True


@pytest.mark.rule("R61-02")
@given(URLS.filter(is_readable))
def test_a_persistent_url_written_is_read_again(url):
    text = BASE + format_persistent_target(url)
    assert text.isascii()
    assert not set(text) & set(' \r\n"<>#[]{}|\\^`')
    assert parse_persistent_url(text) == url


@pytest.mark.rule("R61-03")
@given(st.data(), IBIS, VERB_LISTS)
def test_any_character_of_ibi_and_modifier_may_be_encoded(data, ibi, verbs):
    url = PersistentUrl(ibi, VerbList(verbs.relation), "/a%2520b", False, "x=%2B")
    target = format_persistent_target(url)
    front = target[1 : target.index("/a%2520b")]
    encoded = data.draw(st.lists(st.booleans(), min_size=len(front), max_size=len(front)))
    written = "".join(
        f"%{ord(character):02x}" if is_encoded else character
        for character, is_encoded in zip(front, encoded, strict=True)
    )
    assert parse_persistent_target(f"/{written}/a%2520b?x=%2B") == url


@pytest.mark.rule("R61-13")
@given(IBIS, VERB_LISTS, st.sampled_from(["+", "%20", "++"]))
def test_a_verb_list_is_equivalent_to_a_modifier(ibi, verbs, joint):
    query = f"?ibiurl.verblist={format_verb_list(verbs).replace(' ', joint)}"
    in_query = parse_persistent_target(f"/{ibi}{query}")
    assert in_query.verbs == verbs
    assert parse_persistent_target(format_persistent_target(in_query)) == in_query
    modified = format_persistent_target(PersistentUrl(ibi, VerbList(verbs.relation)))
    assert parse_persistent_target(f"{modified}{query}") == in_query


TEXTS = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(
            [
                *("http:/", "http://", "urlib.net", "ibi:", "rep/", "upn:EEAFFE:", ITEM, NAME, "/"),
                *("LK47B6W/", "2009/", "?", "??", "!", "+", ":", "(", "pt", ")", "%", "%3F", "%2F"),
                *("#", "&", "=", "ibiurl.verblist=", "ibiurl.requireditemstatus=", "GetMetadata"),
                *("GetLastEdition", "Original", "\u00e9", "\udcf3", "\ud800", " ", "\n", "\x00"),
            ]
        )
    ).map("".join),
)


@given(TEXTS, st.sampled_from(["", BASE, f"{BASE}/{ITEM}", f"http:/{NAME}", f"{BASE}/{ITEM}?"]))
def test_any_text_is_a_persistent_url_or_an_error_of_one_line(text, front):
    for parse in (parse_persistent_url, parse_persistent_target):
        found = get_outcome(parse, front + text)
        if isinstance(found, MalformedPersistentUrl):
            assert found.rule
            assert str(found).isprintable()
        else:
            assert found.path == "" or found.path[0] == "/"
            assert (found.path + found.passed_query).isascii()
            assert parse_persistent_target(format_persistent_target(found)) == found


@pytest.mark.parametrize(
    "text", CASES["a user may type a whole persistent url or the part after the host"]
)
def test_a_user_may_type_a_whole_persistent_url_or_the_part_after_the_host(text):
    assert read_persistent_url(text) == read(f"{ITEM}!:")
    assert is_persistent_url(text) is text.lower().startswith("http")


LONG = [
    *("ibi/" * 2000, "ibi:" * 2000, "http:/" * 1300, "http:/x/" * 1000, "/" * 8000, "%2F" * 2700),
    *(ITEM + sign * (8000 // len(sign)) for sign in ("+", "+(pt)", "+(", "(", "%3F")),
    *("a/" * 4000, "a" * 8000, "a-" * 4000, "8JMKD3MGP8W" * 700, f"{NAME}.01.{'1' * 8000}"),
    *(f"{ITEM}?{'ibiurl.verblist=&' * 480}", f"{ITEM}?{'&' * 8000}", f"{ITEM}?{'%' * 2500}"),
    f"{ITEM}?ibiurl.verblist={'GetMetadata+GetMetadata(oai_dc)+' * 250}",
]


def test_errors_about_long_texts_are_short():
    outcomes = [get_outcome(parse_persistent_target, f"/{text}") for text in LONG]
    refusals = [outcome for outcome in outcomes if isinstance(outcome, MalformedPersistentUrl)]
    assert len(refusals) == len(LONG) - 2  # a query of only "&" or only "%" is not an error
    assert max(len(str(error)) for error in refusals) < 1000
