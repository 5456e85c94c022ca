"""Tests the messages of the pages about a refused text, in English and Portuguese."""

from __future__ import annotations

from markupsafe import escape
from support.pages import Page, reading
from support.vectors import load
from support.web import resolver_app

from flask_ibi_archive.core.identifiers.parse import decode_identifier
from flask_ibi_archive.core.resolution.persistent_url import read_persistent_url
from flask_ibi_archive.errors import IdentifierError, MalformedPersistentUrl, Reason
from flask_ibi_archive.server.web.texts import translate_reason

#: Typed texts, each with the message on an English and on a Portuguese page: messages of one part
#: and of several parts.
ROWS = load("pages/reasons.json")


def reason_of(text: str) -> Reason | None:
    """Return the reason why the front page refuses a text; None if the text is right."""
    try:
        decode_identifier(read_persistent_url(text).ibi)
    except (MalformedPersistentUrl, IdentifierError) as refused:
        return refused.reason
    return None


def language_of(page: Page, tag: str) -> str | None:
    """Return the language of the last element of a kind."""
    [*_, attrs] = [attrs for name, attrs in page.tags if name == tag]
    return attrs.get("lang", page.html["lang"])


def test_a_reason_is_written_in_both_languages() -> None:
    app = resolver_app(lambda *asked: None)
    assert translate_reason(None) == ""
    for text, english, portuguese in ROWS:
        reason = reason_of(text)
        assert str(reason) == english
        for language, said in (("en", english), ("pt", portuguese)):
            with reading(language):
                assert translate_reason(reason) == said
            # on the front page of a resolver
            answer = app.test_client().get(
                "/",
                query_string={"ibi": text},
                headers={"Accept-Language": language},
            )
            if answer.status_code == 302:
                continue  # it is well-formed: only the commands decode it
            assert answer.status_code == 400
            assert f">{escape(said)}</span>." in answer.text
            page = Page(answer.text)
            assert (page.text("span"), language_of(page, "span")) == (said, language)
