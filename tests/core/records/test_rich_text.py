"""The markup of other systems in titles and abstracts: allowed tags as HTML, and plain text."""

from __future__ import annotations

import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_ibi_archive.core.records.rich_text import TAGS, to_html, to_plain


class Reader(HTMLParser):
    """Reads the tags and the texts of HTML as a browser does."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        assert not attributes
        self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


PIECES = st.sampled_from(
    ["<", ">", "</", "/>", "i", "sub", "script", "jats:p", "jats:", "<i>", "</i>", "<b x='", '"',
     "&", "&lt;", "&#60;", "&amp;", ";", " ", "onclick=", "<!--", "-->", "<img src=x onerror=y>"]
)  # fmt: skip


@given(st.lists(PIECES | st.text(max_size=3)).map("".join))
def test_the_html_of_any_text_contains_only_allowed_tags_without_attributes(text: str) -> None:
    read = Reader(to_html(text))
    assert read.opened == []
    assert read.text == to_plain(text)


@pytest.mark.parametrize("unit", ["<i>", "<i></b>", "<i ", "&a", "<b> ", "<p> </p>\n"])
def test_the_time_of_a_long_text_grows_linearly(unit: str) -> None:
    def measure(count: int) -> float:
        begun = time.process_time()
        to_plain(f"<{unit * count}")
        return time.process_time() - begun

    # quadratic time would be 256 times as long
    assert measure(64_000) < 100 * max(measure(4_000), 0.0005)
