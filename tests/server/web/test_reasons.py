"""Tests the messages of the pages about a refused text, in English and Portuguese."""

from __future__ import annotations

import pytest
from flask import Flask
from markupsafe import escape
from support.cases import for_each
from support.pages import Page, reading
from support.web import Answer, ask, resolver_app

from flask_ibi_archive.core.identifiers.parse import decode_identifier
from flask_ibi_archive.core.resolution.persistent_url import read_persistent_url
from flask_ibi_archive.errors import IdentifierError, MalformedPersistentUrl
from flask_ibi_archive.reasons import Reason
from flask_ibi_archive.server.web.texts import translate_reason

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
BROWSER = "text/html,*/*;q=0.8"

each_row = for_each(("text", "english", "portuguese"), ROWS)


def reason_of(text: str) -> Reason | None:
    """Return the reason why the front page refuses a text; None if the text is right."""
    try:
        decode_identifier(read_persistent_url(text).ibi)
    except (MalformedPersistentUrl, IdentifierError) as refused:
        return refused.reason
    return None


# --- the templates


@each_row
def test_a_reason_is_written_in_both_languages(text: str, english: str, portuguese: str) -> None:
    reason = reason_of(text)
    for language, text in (("en", english), ("pt", portuguese)):
        with reading(language):
            assert translate_reason(reason) == text
    assert str(reason) == english


def test_no_reason_is_an_empty_text() -> None:
    assert translate_reason(None) == ""


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


@each_row
def test_the_front_page_shows_the_reason_in_the_reader_s_language(
    app: Flask, text: str, english: str, portuguese: str
) -> None:
    for language, said in (("en", english), ("pt", portuguese)):
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
