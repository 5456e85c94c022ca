"""The path of a file as requests give it."""

from __future__ import annotations

from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each

from flask_ibi_archive.protocol.query import decode_query_string, list_candidate_paths


@for_each(
    ("filepath", "expected"),
    [
        ("", ()),
        ("/", ()),
        ("a.txt", ("a.txt",)),
        ("/a.txt", ("a.txt",)),
        ("//a.txt", ("/a.txt",)),
        ("a/b c.txt", ("a/b c.txt",)),
        ("a%20b", ("a%20b", "a b")),
        ("a%2520b", ("a%2520b", "a%20b")),
        ("100%", ("100%",)),
        ("100%zz", ("100%zz",)),
        ("Relat\udcf3rio", ("Relatório",)),
        ("Relat%f3rio", ("Relat%f3rio", "Relatório")),
        ("Relat%C3%B3rio", ("Relat%C3%B3rio", "Relatório")),
        ("%E6%97%A5", ("%E6%97%A5", "日")),
        ("a+b", ("a+b",)),
    ],
)
def test_a_path_is_as_decoded_once_then_once_more(filepath: str, expected: tuple[str, ...]) -> None:
    assert list_candidate_paths(filepath) == expected


paths = st.text(min_size=1).filter(lambda path: not path.startswith("/") and "\0" not in path)


@given(paths.filter(lambda path: max(path) < "\udc80"), st.sampled_from(["", "/"]))
def test_every_path_is_found_as_it_is_and_encoded(path: str, slash: str) -> None:
    assert list_candidate_paths(slash + path)[0] == path
    assert list_candidate_paths(slash + quote(path))[-1] == path


@given(st.binary(min_size=1).filter(lambda raw: b"\0" not in raw and raw[:1] != b"/"))
def test_any_bytes_in_a_query_are_some_path(raw: bytes) -> None:
    [(_, value)] = decode_query_string(b"parsedibiurl.filepath=" + quote(raw, safe="").encode())
    candidates = list_candidate_paths(value)
    assert candidates
    assert candidates[0].encode("utf-8") == raw or candidates[0].encode("iso-8859-1") == raw


@given(st.text(st.characters(codec=None)))
def test_what_may_be_a_path_can_be_sent_to_any_database(filepath: str) -> None:
    for candidate in list_candidate_paths(filepath.encode("utf-8", "replace").decode("utf-8")):
        candidate.encode("utf-8")
        assert "\0" not in candidate
        assert candidate


def test_a_nul_makes_no_other_path_of_it() -> None:
    assert list_candidate_paths("a\0") == ("a%00",)
