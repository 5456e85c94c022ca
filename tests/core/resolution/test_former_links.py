"""The meanings of a requested URL that is no persistent URL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each

from flask_ibi_archive.core.resolution.former_links import MAX_ENDS, find_former_links, is_named
from flask_ibi_archive.core.resolution.persistent_url import parse_persistent_target

BASE = "http://old.example.org"


def meanings(target: str, *bases: str) -> list[tuple[str, str]]:
    """Return the alias and the rest of each meaning."""
    return [(link.alias.text, link.rest) for link in find_former_links(target, bases)]


@pytest.mark.rule("FI-3")
@for_each(
    ("target", "expected"),
    [
        ("/hdl:20.500.12345/678", [("hdl:20.500.12345/678", "")]),
        ("/HDL:20.500.12345/678", [("hdl:20.500.12345/678", "")]),
        (
            "/hdl:20.500.12345/678!:(oai_dc)",
            [
                ("hdl:20.500.12345/678!:(oai_dc)", ""),
                ("hdl:20.500.12345/678!", ":(oai_dc)"),
                ("hdl:20.500.12345/678", "!:(oai_dc)"),
            ],
        ),
        (
            "/hdl:1/2+(pt-BR)?x=1",
            [("hdl:1/2+(pt-BR)", "?x=1"), ("hdl:1/2", "+(pt-BR)?x=1")],
        ),
        (
            "/hdl:1/2/folder/a.pdf",
            [
                ("hdl:1/2/folder/a.pdf", ""),
                ("hdl:1/2/folder", "/a.pdf"),
                ("hdl:1/2", "/folder/a.pdf"),
            ],
        ),
        # "AID" follows no modifier
        ("/doi:10.1002/x%3C1::AID%3E", [("doi:10.1002/x<1::AID>", "")]),
        ("/ark:/12345/x5", [("ark:12345/x5", "")]),
        ("/ark:/12345/x-5/f1.jpg", [("ark:12345/x-5/f1.jpg", ""), ("ark:12345/x-5", "/f1.jpg")]),
        ("/urn:nbn:br:bn-1:", [("urn:nbn:br:bn-1:", ""), ("urn:nbn:br:bn-1", ":")]),
        ("/hdl:1/2?ibiurl.requireditemstatus=None", []),
        ("/hdl:1", []),
        ("/handle/1/2", []),
        ("/10.1000/182", []),
    ],
)
def test_the_longest_identifier_is_the_first_meaning(
    target: str, expected: list[tuple[str, str]]
) -> None:
    assert meanings(target) == expected


@for_each(
    ("target", "expected"),
    [
        ("/handle/1/2", [(f"{BASE}/handle/1/2", "")]),
        ("/", [(f"{BASE}/", "")]),
        ("/handle/1/2!", [(f"{BASE}/handle/1/2!", ""), (f"{BASE}/handle/1/2", "!")]),
        (
            "/handle/1/2!/a.pdf",
            [(f"{BASE}/handle/1/2!/a.pdf", ""), (f"{BASE}/handle/1/2", "!/a.pdf")],
        ),
        ("/item?id=1&x=2", [(f"{BASE}/item?id=1&x=2", ""), (f"{BASE}/item", "?id=1&x=2")]),
        # the page below is another one
        ("/handle/1/2/browse", [(f"{BASE}/handle/1/2/browse", "")]),
        ("/doi:10.1000/182", [("doi:10.1000/182", ""), (f"{BASE}/doi:10.1000/182", "")]),
    ],
)
def test_the_whole_url_may_be_an_address(target: str, expected: list[tuple[str, str]]) -> None:
    assert meanings(target, BASE) == expected


def test_each_base_is_tried() -> None:
    bases = (BASE, f"{BASE}/repository")
    assert meanings("/1?x", *bases) == [
        (f"{BASE}/1?x", ""),
        (f"{BASE}/repository/1?x", ""),
        (f"{BASE}/1", "?x"),
        (f"{BASE}/repository/1", "?x"),
    ]


def test_a_modifier_stands_for_a_persistent_url() -> None:
    link = find_former_links("/hdl:1/2!:(oai_dc)/a.xml?x=1", [])[-1]
    read = parse_persistent_target(f"/{link.wanted.ibi}!:(oai_dc)/a.xml?x=1")
    assert link.wanted == read
    # whatever follows, the placeholder is not read as a part of a repository name
    link = find_former_links("/hdl:1/2/2009/02.16.17.46", [])[-1]
    assert (link.rest, link.wanted.path) == ("/2009/02.16.17.46", "/2009/02.16.17.46")


@pytest.mark.parametrize("sign", ["!", "+", ":", "/"])
def test_the_number_of_meanings_is_limited(sign: str) -> None:
    target = f"/hdl:1/2{f'x{sign}' * 4000}"
    assert len(find_former_links(target, [BASE])) <= 2 * MAX_ENDS


@given(
    st.one_of(st.just("/"), st.sampled_from(["/doi:", "/hdl:1/", "/ark:/12345/", "/urn:nbn:br:"])),
    st.text("aA1/!+:()%?&=#.-é\0\ud800 ", max_size=40),
)
def test_any_target_is_accepted(start: str, rest: str) -> None:
    for link in find_former_links(start + rest, [BASE]):
        assert link.alias.text.startswith(BASE) or is_named(start)
        assert (start + rest).endswith(link.rest)
