"""Tests the parsing and formatting of persistent URLs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.cases import for_each
from support.identifier_strategies import ibips, legacies, repository_names
from support.vectors import load
from support.verb_lists import VERB_LISTS

from flask_ibi_archive.core.identifiers.grammar import match_identifier
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.relations import (
    NO_VERBS,
    SHAPES,
    VerbList,
    format_verb_list,
    parse_relation,
    parse_verb_list,
)
from flask_ibi_archive.core.resolution.persistent_url import (
    MAX_PATH,
    MAX_PREFIXES,
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

VECTORS = load("persistent_urls.json")
BASE = "http://urlib.net"
ITEM = "8JMKD3MGP8W/35MMLL8"
NAME = "iconet.com.br/banon/2009/09.09.22.01"

# [R] Table 6.2, in the words of Table 7.5
MODIFIERS = {
    ":": ".metadata",
    ":+": ".metadata.translation",
    "!": ".lastedition",
    "!+": ".lastedition.translation",
    "!:": ".lastedition.metadata",
    "!+:": ".lastedition.translation.metadata",
    "!:+": ".lastedition.metadata.translation",
    "!+:+": ".lastedition.translation.metadata.translation",
    "+": ".translation",
    "+!": ".translation.lastedition",
    "+:": ".translation.metadata",
    "+!:": ".translation.lastedition.metadata",
    "+:+": ".translation.metadata.translation",
    "+!:+": ".translation.lastedition.metadata.translation",
}


def read(target: str) -> PersistentUrl:
    return parse_persistent_target(f"/{target}")


def relation_of(target: str) -> str:
    return read(target).verbs.relation.name


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
@for_each(("text", "parts"), VECTORS["parsed"] + VECTORS["in_use"])
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
@for_each("text", VECTORS["refused"])
def test_a_text_that_is_not_a_persistent_url_is_refused(text):
    with pytest.raises(MalformedPersistentUrl) as caught:
        parse_persistent_url(text)
    assert caught.value.url == text
    assert caught.value.rule in str(caught.value)
    assert isinstance(caught.value, PeerProtocolError)


@pytest.mark.rule("R61-04")
def test_the_modifiers_are_those_of_table_6_2():
    assert sorted(MODIFIERS) == sorted(VECTORS["modifiers"])
    assert sorted(parse_relation(name).shape for name in MODIFIERS.values()) == sorted(SHAPES)[1:]


@pytest.mark.rule("R61-02", "R61-03", "R61-04", "R61-08")
@for_each("ibi", [ITEM, NAME, "83LX3pFwXQZeBBx/hwiTk"])
@for_each(("modifier", "relation"), MODIFIERS.items())
def test_every_modifier_has_its_relation_after_every_form_of_ibi(ibi, modifier, relation):
    for rest in ("", "/a.pdf", "?x=1", "/a.pdf?x=1"):
        url = read(ibi + modifier + rest)
        assert (url.ibi.text, url.verbs) == (ibi, VerbList(parse_relation(relation)))
        assert format_persistent_target(url) == f"/{ibi}{modifier}{rest}"


@pytest.mark.rule("R61-05")
def test_the_signs_have_parameters():
    assert (
        relation_of(f"{ITEM}!+(pt-BR):(BibINPE)+(en)/x")
        == ".lastedition.translation(pt-BR).metadata(BibINPE).translation(en)"
    )


@pytest.mark.rule("R61-13")
def test_example_6_5_is_the_second_url_of_example_6_4():
    assert read(f"{ITEM}?ibiurl.verblist=GetLastEdition+GetMetadata(oai_dc)") == read(
        f"{ITEM}!:(oai_dc)"
    )


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
@for_each(
    "base",
    [
        "http://urlib.net",
        "https://urlib.net",
        "HTTP://URLIB.NET",
        "http://mtc-m16d.sid.inpe.br:80",
        "http://localhost:5000",
        "https://[2001:db8::1]:8443",
        "http:/urlib.net",
        "https:/urlib.net:80",
        "http:",
    ],
)
@for_each("ibi", [ITEM, NAME])
def test_any_host_is_accepted(base, ibi):
    assert parse_persistent_url(f"{base}/{ibi}!/a?x=1#page=3") == read(f"{ibi}!/a?x=1")


@for_each(
    "text",
    ["", ITEM, f"/{ITEM}", f"ftp://urlib.net/{ITEM}", f"urlib.net/{ITEM}", f" {BASE}/{ITEM}"],
)
def test_a_whole_url_begins_with_http_or_https(text):
    with pytest.raises(
        MalformedPersistentUrl, match="a persistent URL must begin with http:// or https://"
    ):
        parse_persistent_url(text)


@pytest.mark.rule("R61-01")
@for_each(
    "prefix",
    [
        "/",
        "ibi/",
        "rep/",
        "ibi:",
        "IBI:",
        "upn:EEAFFE:",
        "upn:EEAFFE:/",
        "upn:0a1b2c:",
        "http:/",
        "http://",
        "https:/",
        "http:/urlib.net/",
        "http://urlib.net/",
        "http://urlib.net:80/",
        "https:/www.urlib.net:8443/",
        "http:/urlib.net/rep/",
        "http:/ibi:",
        "http:/urlib.net/http:/urlib.net/upn:EEAFFE:",
        "http%3A%2F%2Furlib.net%2F",
        "ibi%3a",
    ],
)
@for_each("ibi", [ITEM, NAME, "83LX3pFwXQZeBBx/hwiTk"])
def test_prefixes_from_citations_are_ignored(prefix, ibi):
    assert read(f"{prefix}{ibi}+(pt)/a/b?x=1") == read(f"{ibi}+(pt)/a/b?x=1")


@pytest.mark.parametrize(
    ("target", "ibi"),
    [
        # the words of a prefix are a subdomain here
        ("rep/banon/2009/09.09.22.01", "rep/banon/2009/09.09.22.01"),
        ("ibi/banon/2009/09.09.22.01", "ibi/banon/2009/09.09.22.01"),
        ("rep/rep/banon/2009/09.09.22.01", "rep/banon/2009/09.09.22.01"),
        # read after "http:/" before it is read after the host
        ("http:/urlib.net/banon/2009/09.09.22.01", "urlib.net/banon/2009/09.09.22.01"),
    ],
)
def test_a_repository_name_wins_over_a_prefix_and_a_host(target, ibi):
    assert read(target).ibi.text == ibi


def test_at_most_sixteen_prefixes_are_ignored():
    assert read("rep/" * MAX_PREFIXES + ITEM) == read(ITEM)
    assert "is not an IBI" in refusal_of("rep/" * (MAX_PREFIXES + 1) + ITEM).rule


@for_each("rest", ["", "!:", "/a.pdf", "!/a.pdf?x=1"])
def test_the_longest_identifier_is_read(rest):
    longest = f"{NAME}.00.".ljust(255, "1")
    assert read(longest + rest) == replace(read(NAME + rest), ibi=parse_identifier(longest))
    assert "the text has 256 characters" in refusal_of(f"{longest}1{rest}").rule


@pytest.mark.parametrize("prefix", ["upn:EEAFF:", "upn:EEAFFE5:", "upn:EE-FFE:", "urn:", "col/"])
def test_other_prefixes_are_refused(prefix):
    assert "is not an IBI" in refusal_of(prefix + ITEM).rule


@pytest.mark.rule("R61-02")
@for_each(
    ("target", "ibi", "path"),
    [
        ("LK47B6W/362SFKH/2009/09.09.22.01", "lk47b6w/362sfkh/2009/09.09.22.01", ""),
        ("LK47B6W/362SFKH/2009/09.09.22.01/x/y", "lk47b6w/362sfkh/2009/09.09.22.01", "/x/y"),
        ("LK47B6W/362SFKH/2009/13.09.22.01", "LK47B6W/362SFKH", "/2009/13.09.22.01"),
        ("LK47B6W/362SFKH!/2009/09.09.22.01", "LK47B6W/362SFKH", "/2009/09.09.22.01"),
        ("LK47B6W/362SFKH/2009/09.09.22.01.pdf", "LK47B6W/362SFKH", "/2009/09.09.22.01.pdf"),
        ("LK47B6W/362SFKH/2009", "LK47B6W/362SFKH", "/2009"),
        ("LK47B6W/362SFKH/a:b/c!d", "LK47B6W/362SFKH", "/a:b/c!d"),
    ],
)
def test_a_repository_name_wins_over_an_ibip_with_a_path(target, ibi, path):
    url = read(target)
    assert (url.ibi.text, url.path) == (ibi, path)
    assert read(target.replace("/", "%2F", ibi.count("/"))) == url


@for_each(
    ("written", "path"),
    [
        ("", ""),
        ("/", ""),
        ("%2F", ""),
        ("//", "//"),
        ("/data/", "/data/"),
        ("/a+b", "/a+b"),
        ("/a%3Fb%23c", "/a%3Fb%23c"),
        ("/a%3F%3F", "/a%3F%3F"),
        ("/a%2520b", "/a%2520b"),
        ("/a%2Fb", "/a%2Fb"),
        ("/a b", "/a%20b"),
        ("/100%", "/100%25"),
        ("/100%zz%4", "/100%25zz%254"),
        ("/Relat%f3rio", "/Relat%f3rio"),
        ("/Relat\udcf3rio", "/Relat%F3rio"),
        ("/Relat\u00f3rio", "/Relat%C3%B3rio"),
        ("/a\r\nb\x00", "/a%0D%0Ab%00"),
        ('/<"[x]">', "/%3C%22%5Bx%5D%22%3E"),
        ("/../x", "/../x"),
        ("/a:b@c!$&'()*,;=-._~", "/a:b@c!$&'()*,;=-._~"),
    ],
)
@for_each("ibi", [ITEM, NAME, f"{NAME}!%3A"])
def test_the_encoding_of_a_path_does_not_change(ibi, written, path):
    assert read(ibi + written).path == path


# --- the query -----------------------------------------------------------------------------------


@pytest.mark.rule("R61-09", "R61-10")
@for_each(
    ("query", "passed"),
    [
        ("", ""),
        ("x=1&y=2", "x=1&y=2"),
        ("y=2&x=1&y=3", "y=2&x=1&y=3"),
        ("x", "x"),
        ("x=a=b+c%20d%2B%C3%A9%e9", "x=a=b+c%20d%2B%C3%A9%e9"),
        ("&&x=1&", "x=1"),
        ("ibiurl.language=pt&x=1&ibiurl.backgroundlanguage=en&ibiurl.language=en", "x=1"),
        ("x=1&ibiurl.requireditemstatus=Original&y=2&ibiurl.verblist=GetMetadata&z", "x=1&y=2&z"),
        ("%69biurl%2Elanguage=pt&x=1", "x=1"),
        ("ibiurl=1&Ibiurl.verblist=2&xibiurl.verblist=3&ibiurlverblist", None),
        ("x=a b\u00e9\udce9<>[]{}|^`\\\"'", "x=a%20b%C3%A9%E9%3C%3E%5B%5D%7B%7D%7C%5E%60%5C%22'"),
        ("x=%&y=%zz", "x=%25&y=%25zz"),
        ("x=1?&y=??", "x=1?&y=??"),
        ("url=http://x/y?z", "url=http://x/y?z"),
        ("x=1#page", "x=1"),
        ("x=1\r\nSet-Cookie: y", "x=1%0D%0ASet-Cookie:%20y"),
    ],
)
def test_pairs_without_the_prefix_are_passed_on(query, passed):
    url = read(f"{ITEM}?{query}")
    assert url.passed_query == (query if passed is None else passed)
    assert url.passed_query.isascii()


@pytest.mark.rule("R61-11")
@pytest.mark.parametrize(
    ("query", "required"),
    [
        ("ibiurl.requireditemstatus=Original", True),
        ("x=1&ibiurl.requireditemstatus=%4Friginal", True),
        ("requireditemstatus=Original", False),
        ("x=ibiurl.requireditemstatus=Original", False),
    ],
)
def test_the_original_is_required_if_the_query_says_so(query, required):
    assert read(f"{ITEM}?{query}").requires_original is required


@pytest.mark.rule("R61-11")
@for_each("value", ["", "=", "=Copy", "=original", "=Original+", "=Original,Copy"])
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
@for_each(
    ("modifier", "verb_list", "verbs"),
    [
        ("", "", []),
        ("", "+", []),
        ("!", "", ["GetLastEdition"]),
        ("+", "GetMetadata", ["GetTranslation", "GetMetadata"]),
        ("!:", "GetMetadata+GetLastEdition", ["GetLastEdition", "GetMetadata"]),
        ("!", "GetMetadata+GetLastEdition", ["GetLastEdition", "GetMetadata"]),
        ("!", "GetMetadata%2BGetLastEdition", ["GetLastEdition", "GetMetadata"]),
        (
            "",
            "GetTranslation+GetMetadata+GetTranslation",
            ["GetTranslation", "GetMetadata", "GetTranslation"],
        ),
        ("", "GetLastEdition+GetLastEdition", ["GetLastEdition"]),
        ("", "GetLastEdition+GetMetadata+GetLastEdition", ["GetLastEdition", "GetMetadata"]),
        ("!", "GetMetadata+GetMetadata+GetMetadata", ["GetLastEdition", "GetMetadata"]),
        ("+:", "GetTranslation(en)", ["GetTranslation", "GetMetadata", "GetTranslation(en)"]),
        (
            "+(pt):",
            "GetTranslation+GetTranslation",
            ["GetTranslation(pt)", "GetMetadata", "GetTranslation"],
        ),
        (
            "",
            "GetFileList+GetTranslation+GetTranslation+GetFileList",
            ["GetTranslation", "GetFileList"],
        ),
        ("+:", "GetTranslation", ["GetTranslation", "GetMetadata"]),
        (":", "GetFileList", ["GetMetadata", "GetFileList"]),
        (
            "!",
            "GetFileList+GetMetadata(oai_dc)",
            ["GetLastEdition", "GetMetadata(oai_dc)", "GetFileList"],
        ),
        (
            "",
            "GetLastEdition%20GetFileList%20GetMetadata%28oai_dc%29",
            ["GetLastEdition", "GetMetadata(oai_dc)", "GetFileList"],
        ),
        ("", "GetLastEdition%2BGetMetadata", ["GetLastEdition", "GetMetadata"]),
    ],
)
def test_the_verbs_of_the_list_follow_those_of_the_modifier_without_repetition(
    modifier, verb_list, verbs
):
    url = read(f"{ITEM}{modifier}?ibiurl.verblist={verb_list}")
    assert format_verb_list(url.verbs).split() == verbs


@pytest.mark.rule("R61-12", "R62-02")
@for_each(
    ("modifier", "verb_list", "reason"),
    [
        ("", "GetNothing", "'GetNothing' is not a verb"),
        ("", "getmetadata", "'getmetadata' is not a verb"),
        ("", "GetTranslation(xx)", "'xx' is not a language"),
        ("", "GetMetadata+GetLastEdition", "GetLastEdition may not follow GetMetadata"),
        (":", "GetLastEdition", "GetLastEdition may not follow GetMetadata"),
        (":", "GetMetadata(oai_dc)", "GetMetadata(oai_dc) may not follow GetMetadata"),
        ("!+:+", "GetTranslation(pt)", "may not follow GetTranslation"),
        ("", "GetTranslation(en)+GetTranslation(pt)", "may not follow GetTranslation(en)"),
        ("", "GetFileList(x)", "is not a verb"),
        ("", "GetLastEdition%09GetMetadata", "is not a verb"),
    ],
)
def test_the_grammar_of_relations_applies_to_all_verbs_together(modifier, verb_list, reason):
    error = refusal_of(f"{ITEM}{modifier}?ibiurl.verblist={verb_list}")
    assert error.rule.startswith("ibiurl.verblist: ")
    assert reason in error.rule


@pytest.mark.rule("D3-02")
@for_each(
    ("written", "meant"),
    [
        ("??", ":"),
        ("%3F%3F", ":"),
        ("%3f?", ":"),
        ("?%3F", ":"),
        ("!??", "!:"),
        ("+(pt)??", "+(pt):"),
        ("%21%3F%3F", "!:"),
        ("/a.pdf??", ":/a.pdf"),
        # the rest is a query
        ("??a=b", ":?a=b"),
        ("??&a=b", ":?a=b"),
        ("?%3F&a=b", ":?a=b"),
        ("%3F?a=b", ":?a=b"),
        ("%3F%3F?a=b", ":?a=b"),
        ("??ibiurl.verblist=GetTranslation", ":+"),
        ("??#page", ":"),
        # one sign is an empty query
        ("?", ""),
    ],
)
def test_two_question_marks_are_the_old_form_of_a_colon(written, meant):
    for ibi in (ITEM, NAME):
        assert read(ibi + written) == read(ibi + meant)


@pytest.mark.parametrize("rest", ["?a=b??", "?a=b&??", "?a??", "?%3Fa=b", "/a%3F%3F"])
def test_question_marks_elsewhere_have_no_meaning(rest):
    assert read(ITEM + rest).verbs == NO_VERBS


@pytest.mark.rule("D3-02")
@pytest.mark.parametrize("rest", [":??", "!:??", ":+??", "%3F%3F??", "%3F%3F%3F"])
def test_metadata_have_no_metadata(rest):
    assert "may not follow" in refusal_of(ITEM + rest).rule


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.rule("R61-03")
@for_each(
    ("target", "reason"),
    [
        ("", "there is no IBI after the host name"),
        ("?x=1", "there is no IBI after the host name"),
        ("//", "there is no IBI after the host name"),
        ("!", "there is no IBI after the host name"),
        ("http:/", "there is no IBI after the host name"),
        ("ibi/", "there is no IBI after the host name"),
        ("favicon.ico", "'favicon.ico' is not an IBI: the text has no '/'"),
        ("LK47B6W/362SFKO/a/b/c", "'LK47B6W/362SFKO' is not an IBI: the second part has 'O'"),
        ("LK47B6W/362SFKH;x=1", "';' at position 16 is not allowed in an identifier"),
        ("LK47B6W/362SFKH(pt)", "'(' at position 16 is not allowed in an identifier"),
        ("LK47B6W/362SFKH%20", "' ' at position 16 is not allowed in an identifier"),
        ("LK47B6W/362SFKH%0A", r"'\n' at position 16 is not allowed in an identifier"),
        ("LK47B6W/362SFK\u212a", r"'LK47B6W/362SFK\u212a' is not an IBI"),
        ("LK47B6W/362SFK%f3", r"'LK47B6W/362SFK\udcf3' is not an IBI"),
        ("iconet.com.br/banon/2009", "the text has 3 parts"),
        ("iconet.com.br/banon/2009/13.09.22.01/x", "the month, '13'"),
        ("http:/urlib.net/ibi:LK47B6W", "'LK47B6W' is not an IBI"),
        (f"{ITEM}!x", "'x' may not follow the IBI and its modifier"),
        (f"{ITEM}+(pt", "'(pt' may not follow the IBI and its modifier"),
        (f"{ITEM}+((pt))", "'((pt))' may not follow the IBI and its modifier"),
        (f"{ITEM}: /a", "' /a' may not follow the IBI and its modifier"),
        (f"{ITEM}:\u00e9", r"'\xe9' may not follow the IBI and its modifier"),
        (f"{ITEM}%3Fx=1", "'?x=1' may not follow the IBI and its modifier"),
        (f"{ITEM}%3F", "'?' may not follow the IBI and its modifier"),
        (f"{ITEM}!(pt)", "!: a last edition has no parameter"),
        (
            f"{ITEM}+(pt-br)",
            "+: 'pt-br' is not a language; upper and lower case are different: write pt-BR",
        ),
        (f"{ITEM}+()", "+: '' is not a language"),
        (f"{ITEM}:(oai dc)", ":: 'oai dc' is not a format"),
        (f"{ITEM}:(\u00e9)", r":: '\xe9' is not a format"),
        (f"{ITEM}::", '":" may not follow ":" here'),
        (f"{ITEM}+(pt)+(en)", '"+(en)" may not follow "+(pt)" here'),
        (f"{ITEM}!+:++", '"+" may not follow "+" here'),
        (f"{ITEM}:??", '"??" may not follow ":" here'),
        (f"{ITEM}:%3F%3F", '"??" may not follow ":" here'),
        (f"{ITEM}{'!+' * 99}", '"!" may not follow "+" here'),
    ],
)
def test_an_error_names_what_is_wrong(target, reason):
    assert reason in refusal_of(target).rule


@for_each(
    ("target", "suggestion"),
    [
        ("8JMKD3MGP8W/35MMLLV", "8JMKD3MGP8W/35MMLLU"),
        ("8JMKD3MGP8W/35MMLLV!:/a/b", "8JMKD3MGP8W/35MMLLU"),
        ("8JMKD3MGP8W/35MMLLV/a.pdf", "8JMKD3MGP8W/35MMLLU"),
        ("rep/sid.inpe.br/mtc-m18/2OO9/07.21.14.43/x", "sid.inpe.br/mtc-m18/2009/07.21.14.43"),
        (
            "http:/urlib.net/sid.inpe.br/mtc-m18/2OO9/07.21.14.43",
            "sid.inpe.br/mtc-m18/2009/07.21.14.43",
        ),
        ("LK47B6W/362SFKO", None),
        (f"{ITEM}!!", None),
    ],
)
def test_the_identifier_that_was_probably_meant_is_suggested(target, suggestion):
    error = refusal_of(target)
    assert error.suggestion == suggestion
    assert ("did you mean" in str(error)) is (suggestion is not None)


def test_an_error_names_the_whole_url():
    with pytest.raises(MalformedPersistentUrl) as caught:
        parse_persistent_url(f"{BASE}/{ITEM}!!")
    assert str(caught.value).startswith(f"'{BASE}/{ITEM}!!' is not a persistent URL: ")


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


@for_each(
    ("read_from", "written"),
    [
        (f"ibi/{ITEM.lower()}%3A%28oai_dc%29", f"/{ITEM}:(oai_dc)"),
        (f"{ITEM}?ibiurl.verblist=GetLastEdition+GetMetadata(oai_dc)", f"/{ITEM}!:(oai_dc)"),
        (
            f"{ITEM}/a%20b?x=1&ibiurl.verblist=GetFileList+GetLastEdition&ibiurl.language=pt"
            "&ibiurl.requireditemstatus=Original&y=2",
            f"/{ITEM}!/a%20b?ibiurl.requireditemstatus=Original&ibiurl.verblist=GetFileList&x=1&y=2",
        ),
        (f"{ITEM}!??", f"/{ITEM}!:"),
        (f"{ITEM}?&?a=b", f"/{ITEM}?&?a=b"),
        (
            f"{ITEM}?&?a=b&ibiurl.requireditemstatus=Original",
            f"/{ITEM}?ibiurl.requireditemstatus=Original&?a=b",
        ),
        (f"{ITEM}?", f"/{ITEM}"),
    ],
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
@for_each(
    ("url", "query", "result"),
    [
        ("http://x/a", "", "http://x/a"),
        ("http://x/a?", "", "http://x/a?"),
        ("http://x/a", "x=1&y", "http://x/a?x=1&y"),
        ("http://x/a?z=3", "x=1", "http://x/a?z=3&x=1"),
        ("http://x/a?", "x=1", "http://x/a?x=1"),
        ("http://x/a?z&", "x=1", "http://x/a?z&x=1"),
        ("http://x/a&", "x=1", "http://x/a&?x=1"),
        ("http://x/a#b", "x=1", "http://x/a?x=1#b"),
        ("http://x/a?z=3#b?c", "x=1", "http://x/a?z=3&x=1#b?c"),
        ("http://x/a#b?c#d", "x=1", "http://x/a?x=1#b?c#d"),
        ("http://x/a%3Fb", "x=1", "http://x/a%3Fb?x=1"),
    ],
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


@given(st.one_of(st.text(min_size=1), st.binary(min_size=1)))
def test_every_file_name_is_read_as_it_was_written(name):
    path = quote(name.encode("utf-8", "replace") if isinstance(name, str) else name, safe="")
    assume(match_identifier(f"{ITEM}/{path}") is None)
    assert read(f"{ITEM}/{path}").path == f"/{path}"


@for_each(
    "text",
    [
        *(
            f"http://urlib.net/{ITEM}!:",
            f"https://a.br:8080/{ITEM}!:",
            f"HTTP://urlib.net/{ITEM}!:",
        ),
        *(f"HTTPS:/urlib.net/{ITEM}!:", f"http:/urlib.net/{ITEM}!:"),
        *(f"{ITEM}!:", f"/{ITEM}!:", f"//{ITEM}!:"),
    ],
)
def test_a_user_may_type_a_whole_persistent_url_or_the_part_after_the_host(text):
    assert read_persistent_url(text) == read(f"{ITEM}!:")
    assert is_persistent_url(text) is text.lower().startswith("http")


@for_each("text", [f"{ITEM}/", f"{ITEM}/a/", "X/x", "XX/y"])
def test_what_follows_the_host_is_read_as_in_a_whole_persistent_url(text):
    whole, part = (
        get_outcome(read_persistent_url, typed) for typed in (f"{BASE}/{text}", f"/{text}")
    )
    if isinstance(whole, PersistentUrl):
        assert part == whole
    else:
        assert part.rule == whole.rule
    assert get_outcome(read_persistent_url, f" {text}") != whole


def test_the_error_names_a_wrong_value_of_a_parameter():
    refusal = refusal_of(f"{ITEM}?ibiurl.requireditemstatus={'x' * 100}")
    assert f"ibiurl.requireditemstatus is '{'x' * 80}'; the only allowed value is Original" in str(
        refusal
    )


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
