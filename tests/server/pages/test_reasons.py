"""Tests the messages of the pages about a refused text, in English and Portuguese."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape
from support.cases import for_each
from support.pages import Page, reading
from support.web import Answer, ask, resolver_app

from flask_ibi_archive.core.identifiers.parse import decode_identifier, parse_identifier
from flask_ibi_archive.core.resolution.persistent_url import read_persistent_url
from flask_ibi_archive.errors import IdentifierError, MalformedPersistentUrl
from flask_ibi_archive.reasons import ENGLISH, Reason
from flask_ibi_archive.server.pages.texts import read_catalogues, translate_reason

#: A typed text, the message on an English page, and the message on a Portuguese page: messages of
#: one part and of several parts.
TABLE = r"""
http:x
    a persistent URL must begin with http:// or https://, for example http://urlib.net/8JMKD3MGP8W/35MMLL8!:(oai_dc)
    deve começar com http:// ou https://, como http://urlib.net/8JMKD3MGP8W/35MMLL8!:(oai_dc)

8JMKD3MGP8W/35MMLL8:!
    "!" may not follow ":" here; the order is last edition and translation (in either order, each at most once), then metadata, then translation
    "!" não pode vir depois de ":" aqui; a ordem é última edição e tradução (em qualquer ordem, cada uma no máximo uma vez), depois metadados, depois tradução

8JMKD3MGP8W/35MMLL8?ibiurl.verblist=GetTranslation(x)
    ibiurl.verblist: GetTranslation: 'x' is not a language; write a language code of ISO 639-1, such as pt, or a language code with a country code of ISO 3166-1, such as pt-BR
    ibiurl.verblist: GetTranslation: 'x' não é um idioma; um idioma é um código da ISO 639-1, como pt, ou um desses códigos com um código de país da ISO 3166-1, como pt-BR

a b/c
    'a b/c' is not an IBI: ' ' at position 2 is not allowed in an identifier
    'a b/c' não é um IBI: ' ', na posição 2, não é permitido em um identificador

8W3W/2
    '8W3W/2' is not an IBI: the first part has 'W' or 'X' 2 times; exactly one 'W' or 'X' must separate the address from the port
    '8W3W/2' não é um IBI: a primeira parte tem 'W' ou 'X' 2 vezes, mas só um deve separar o endereço da porta

inpe.br/-m/2009/02.16.17.46
    'inpe.br/-m/2009/02.16.17.46' is not an IBI: the word after the subdomain, '-m', begins or ends with a hyphen; a word must begin and end with a letter or digit
    'inpe.br/-m/2009/02.16.17.46' não é um IBI: a palavra depois do subdomínio, '-m', começa ou termina com hífen, mas nesse lugar deve haver uma letra ou um dígito

a.br/m/2009/02
    'a.br/m/2009/02' is not an IBI: the date is incomplete: the day is missing; the form is month.day.hour.minute
    'a.br/m/2009/02' não é um IBI: a data termina antes do dia; sua forma é mês.dia.hora.minuto

a.br/m.0/2009/02.16.17.46
    the port, 0, is not a number from 1 to 65535
    sua porta, 0, não é um número de 1 a 65535

NEW/GADGETS
    the first part does not contain an address and a port: 'NE' is the code of '462', which is not an IPv4 address
    sua primeira parte não contém um endereço e uma porta: 'NE' é o código de '462', que não é um endereço IPv4

8JMKD3MGP8W/234PGRBS
    the second part does not contain a date: the date is written '34PGRBS', not '234PGRBS'
    sua segunda parte não contém uma data: sua data se escreve '34PGRBS', e não '234PGRBS'
"""  # noqa: E501

#: Typed texts with the other reasons, whose messages tests/core examines.
OTHER_TEXTS = r"""
8JMKD3MGP8W/35MMLL8!x
http://urlib.net/
8JMKD3MGP8W/35MMLL8?ibiurl.verblist=GetMetadata&ibiurl.verblist=x
8JMKD3MGP8W/35MMLL8?ibiurl.requireditemstatus=Copy
8JMKD3MGP8W/35MMLL8?ibiurl.verblist=Get
8JMKD3MGP8W/35MMLL8!(x)
8JMKD3MGP8W/35MMLL8:(a.b)
8JMKD3MGP8W/35MMLL8+(PT-br)
8JMKD3MGP8W/35MMLL8+(pt-XX)
ação/b
abc
a.b/c
8JMKD3MGP8W/
8JMKD3MGP8I/34
8JMKD3MGP8W/0
8JMKD3MGP8/34PGRBS
W/2
8W/X2
8W/W2
8W/2W2W2
8W/2W
a..br/m/2009/02.16.17.46
a@b.br/m/2009/02.16.17.46
a.1br/m/2009/02.16.17.46
a.br/m./2009/02.16.17.46
a.br/m.x/2009/02.16.17.46
a.br/m/09/02.16.17.46
a.br/m/2009/13.16.17.46
a.br/m/2009/02.32.17.46
a.br/m/2009/02.16.24.46
a.br/m/2009/02.16.17.60
a.br/m/2009/02.16.17.46.60
a.br/m/2009/02.16
a.br/m/2009/02.16.17
a.br/m/2009/02.30.17.46
a.br/m/2009/02.16.17.46.00.1.2
a.br/m/2009/02.16.17.46.00.x
88888888888888888888888888888888888W/2
8JMKD3MGP8W2/34PGRBS
8JMKD3MGP8W34K/34PGRBS
8JMKD3MGP8W/UUUUUUUUU
"""

LONG = "a" * 300
ROWS = [
    *(tuple(row.split("\n    ")) for row in TABLE.strip().split("\n\n")),
    (
        "a" * 9000,
        "the URL is too long; at most 8192 characters may follow the host name",
        "é longa demais; depois do nome do servidor podem vir no máximo 8192 caracteres",
    ),
    (
        f"8JMKD3MGP8W/35MMLL8/{'&' * 1366}",
        "the path after the IBI is too long; at most 4096 characters can be sent to an Archive, "
        "and each of & = + ? counts as three",
        "o caminho depois do IBI é longo demais; no máximo 4096 caracteres podem ser enviados a um "
        "serviço de Arquivo, e cada um de & = + ? conta como três",
    ),
    (
        LONG,
        f"'{LONG}' is not an IBI: the text has 300 characters; at most 255 are allowed",
        f"'{LONG}' não é um IBI: tem 300 caracteres, mas são permitidos no máximo 255",
    ),
    (
        f"8JMKD3MGP8W/34PGRBSW{'3' * 220}",
        "the second part does not contain a date: the fraction of the second cannot be written "
        "with 255 decimal digits; the fraction must be a number of tenths, hundredths and so on",
        "sua segunda parte não contém uma data: a fração de seu segundo não pode ser escrita com "
        "255 dígitos decimais; deve ser um número de décimos, centésimos e assim por diante",
    ),
]
TYPED = [*(text for text, *_ in ROWS), *OTHER_TEXTS.strip().split("\n")]
#: The codes that a text typed on a page cannot cause.
NOT_ON_PAGES = {
    "identifier_empty",
    "first_part_empty",
}
BROWSER = "text/html,*/*;q=0.8"

each_row = for_each(("text", "english", "portuguese"), ROWS)


def reason_of(text: str) -> Reason | None:
    """Return the reason why the front page refuses a text; None if the text is right."""
    try:
        decode_identifier(read_persistent_url(text).ibi)
    except (MalformedPersistentUrl, IdentifierError) as refused:
        return refused.reason
    return None


def codes_of(reason: Reason) -> Iterator[str]:
    """Yield the codes of a reason and of the reasons among its facts."""
    yield reason.code
    for fact in reason.facts.values():
        if isinstance(fact, Reason):
            yield from codes_of(fact)


# --- the templates


@each_row
def test_a_reason_is_written_in_both_languages(text: str, english: str, portuguese: str) -> None:
    reason = reason_of(text)
    for language, text in (("en", english), ("pt", portuguese)):
        with reading(language):
            assert translate_reason(reason) == text
    assert str(reason) == english


def test_each_code_has_a_text() -> None:
    reasons = [reason for text in TYPED if (reason := reason_of(text))]
    codes = {code for reason in reasons for code in codes_of(reason)}
    assert codes == set(ENGLISH) - NOT_ON_PAGES


@for_each(
    ("cause", "english"),
    [
        (lambda: parse_identifier(""), "the text is empty"),
        (lambda: parse_identifier("/x"), "the first part is empty"),
    ],
)
def test_reasons_of_python_code_have_a_text_too(cause, english) -> None:
    with pytest.raises(IdentifierError) as refused:
        cause()
    assert str(refused.value.reason) == refused.value.rule == english
    assert refused.value.reason.code in NOT_ON_PAGES
    with reading("pt"):
        assert translate_reason(refused.value.reason) != english


def test_no_reason_is_an_empty_text() -> None:
    assert translate_reason(None) == ""


# --- any text

PORTUGUESE = read_catalogues()["pt"].messages

GOOD = (
    "8JMKD3MGP8W/35MMLL8",
    "KAQRPEQ8GB6RXKBG3LJTX3/34PGRBSW3",
    "sid.inpe.br/mtc-m18.8080/2009/02.16.17.46.05.5",
    "http://urlib.net/8JMKD3MGP8W/35MMLL8!:(oai_dc)/a%20b.pdf?x=1",
    "https://urlib.net/rep/sid.inpe.br/mtc-m18@80/2009/02.16.17.46:(oai_dc)+(pt-BR)",
    "8JMKD3MGP8W/35MMLL8?ibiurl.verblist=GetTranslation(pt)+GetMetadata&ibiurl.requireditemstatus=Original",
)
SCRAPS = [
    # one character each
    *"/.@-WX02I!+:()?&='\"\\{ \n\u2028\udcffç語",
    *("//", "!(", "(en-GB)", "'\"", "{}", "2" * 30, "http:/", "GetMetadata"),
    *("%27", "%22", "%5C", "%00", "%0A", "%FF"),
    *(": ", "' is no IBI: it", ", is empty"),
]


@st.composite
def changed_texts(draw: st.DrawFn) -> str:
    """Return a right text with a few random changes."""
    text = draw(st.sampled_from(GOOD))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(text)))
        scrap = draw(st.one_of(st.sampled_from(SCRAPS), st.text(max_size=3)))
        text = text[:place] + scrap + text[place + draw(st.integers(0, 3)) :]
    return text


@given(st.one_of(changed_texts(), changed_texts(), st.text()))
def test_any_reason_has_a_text_in_both_languages(text: str) -> None:
    if reason := reason_of(text):
        assert reason.format(PORTUGUESE.gettext) != str(reason)
        assert reason == reason_of(text)


# --- the pages

ASKED = "/8JMKD3MGP8W/35MMLL8;%3Cb%3E&x"
WRONG = "'8JMKD3MGP8W/35MMLL8;<b>&x'"
SAID = {
    "en": f"{WRONG} is not an IBI: ';' at position 20 is not allowed in an identifier",
    "pt": f"{WRONG} não é um IBI: ';', na posição 20, não é permitido em um identificador",
}


@pytest.fixture(scope="module")
def app() -> Flask:
    """Create an app with the front page of a resolver."""
    return resolver_app(lambda *asked: None)


def see(app: Flask, target: str, language: str) -> Answer:
    """Request a page as a browser does."""
    return ask(app, target, headers={"Accept": BROWSER, "Accept-Language": language})


def language_of(page: Page, tag: str) -> str | None:
    """Return the language of the last element of a kind."""
    [*_, attrs] = [attrs for name, attrs in page.tags if name == tag]
    return attrs.get("lang", page.html["lang"])


@pytest.mark.parametrize("language", ["en", "pt", "pt-BR"])
def test_the_alert_shows_the_reason_in_the_reader_s_language(app: Flask, language: str) -> None:
    said = SAID[language[:2]]
    answer = see(app, ASKED, language)
    assert answer.status == 400
    assert f">{escape(said)}</dd>" in answer.text
    assert said in Page(answer.text).text("dd")
    assert language_of(Page(answer.text), "dd") == language[:2]


def test_programs_get_the_reason_in_english_only(app: Flask) -> None:
    answer = ask(app, ASKED, headers={"Accept-Language": "pt"})
    assert SAID["en"] in " ".join(answer.pairs["alert"])


@for_each("text", TYPED)
def test_the_front_page_shows_the_reason_in_the_reader_s_language(app: Flask, text: str) -> None:
    reason = reason_of(text)
    assert reason is not None
    for language, said in (("en", str(reason)), ("pt", reason.format(PORTUGUESE.gettext))):
        with app.test_client() as client:
            answer = client.get(
                "/",
                query_string={"ibi": text, "do": "decode"},
                headers={"Accept-Language": language},
            )
        assert answer.status_code == 400
        assert f">{escape(said)}</span>." in answer.text
        page = Page(answer.text)
        assert page.text("span") == said
        assert language_of(page, "span") == language
