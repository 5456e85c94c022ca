"""The reasons why a text is no persistent URL, or tells no origin, in the languages of the pages."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from flask import Flask
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import escape
from support.pages import Page
from support.resolver_app import resolver_app
from support.web import Answer, ask

from flask_ibi_archive.errors import IdentifierError, MalformedPersistentUrl
from flask_ibi_archive.identifiers import decode_identifier
from flask_ibi_archive.resolution.outcome import Alert, AlertKind
from flask_ibi_archive.resolution.persistent_url import read_persistent_url
from flask_ibi_archive.web.alerts import alert_response
from flask_ibi_archive.web.reason_texts import LEADS, REASONS
from flask_ibi_archive.web.reasons import split_reason, translate_reason

#: What a reader writes, what the core says of it, and what a Portuguese page says.
TABLE = r"""
http:x
    it begins neither with http:// nor with https://; right is http://urlib.net/8JMKD3MGP8W/35MMLL8!:(oai_dc)
    não começa com http:// nem com https://; o certo é, por exemplo, http://urlib.net/8JMKD3MGP8W/35MMLL8!:(oai_dc)

8JMKD3MGP8W/35MMLL8!x
    'x' can't stand behind the IBI and its modifier; a modifier is made of "!", "+", "+(pt-BR)", ":" and ":(oai_dc)", and a path begins with "/"
    'x' não pode vir depois do IBI e de seu modificador; um modificador é feito de "!", "+", "+(pt-BR)", ":" e ":(oai_dc)", e um caminho começa com "/"

http://urlib.net/
    there is no IBI behind the host; right is http://urlib.net/8JMKD3MGP8W/35MMLL8!:(oai_dc)
    não há um IBI depois do nome do servidor; o certo é, por exemplo, http://urlib.net/8JMKD3MGP8W/35MMLL8!:(oai_dc)

8JMKD3MGP8W/35MMLL8:!
    "!" can't stand behind ":" here; the order is last edition and translation (either first, each once), then metadata, then translation
    "!" não pode vir depois de ":" aqui; a ordem é última edição e tradução (em qualquer ordem, cada uma no máximo uma vez), depois metadados, depois tradução

8JMKD3MGP8W/35MMLL8?ibiurl.verblist=GetMetadata&ibiurl.verblist=x
    ibiurl.verblist is given more than once
    ibiurl.verblist aparece mais de uma vez

8JMKD3MGP8W/35MMLL8?ibiurl.requireditemstatus=Copy
    ibiurl.requireditemstatus is 'Copy'; its only value is Original
    ibiurl.requireditemstatus é 'Copy'; o único valor possível é Original

8JMKD3MGP8W/35MMLL8?ibiurl.verblist=Get
    ibiurl.verblist: 'Get' is no verb; the verbs are GetTranslation, GetTranslation(xx-YY), GetLastEdition, GetMetadata, GetMetadata(format) and GetFileList
    ibiurl.verblist: 'Get' não é um verbo; os verbos são GetTranslation, GetTranslation(xx-YY), GetLastEdition, GetMetadata, GetMetadata(formato) e GetFileList

8JMKD3MGP8W/35MMLL8!(x)
    !: a last edition has no parameter, but 'x' is given
    !: a última edição não tem parâmetro, mas foi dado 'x'

8JMKD3MGP8W/35MMLL8:(a.b)
    :: 'a.b' is no format; it should be one word of letters, digits, "_" and "-", such as oai_dc
    :: 'a.b' não é um formato; deve ser uma só palavra de letras, dígitos, "_" e "-", como oai_dc

8JMKD3MGP8W/35MMLL8+(PT-br)
    +: 'PT-br' is no language, since case counts; write pt-BR
    +: 'PT-br' não é um idioma, pois há diferença entre maiúsculas e minúsculas; escreva pt-BR

8JMKD3MGP8W/35MMLL8+(pt-XX)
    +: 'pt-XX' is no language: behind the hyphen stands a country of ISO 3166-1, such as pt-BR
    +: 'pt-XX' não é um idioma: depois do hífen vem um país da ISO 3166-1, como em pt-BR

8JMKD3MGP8W/35MMLL8?ibiurl.verblist=GetTranslation(x)
    ibiurl.verblist: GetTranslation: 'x' is no language; it should be a code of ISO 639-1, such as pt, or one with a country of ISO 3166-1, such as pt-BR
    ibiurl.verblist: GetTranslation: 'x' não é um idioma; deve ser um código da ISO 639-1, como pt, ou um desses códigos com um país da ISO 3166-1, como pt-BR

a b/c
    'a b/c' is no IBI: ' ' at position 2 is no character of an identifier
    'a b/c' não é um IBI: ' ', na posição 2, não é permitido em um identificador

ação/b
    'a\xe7\xe3o/b' is no IBI: 'ç' at position 2 is not an ASCII character, so none of an identifier
    'a\xe7\xe3o/b' não é um IBI: 'ç', na posição 2, não é um caractere ASCII, e por isso não pode estar num identificador

abc
    'abc' is no IBI: it has no '/' between a prefix and a suffix
    'abc' não é um IBI: não tem '/' entre um prefixo e um sufixo

a.b/c
    'a.b/c' is no IBI: it has 2 parts joined by '/', where a repository name has four (subdomain/word/year/month.day.hour.minute) and an IBIp has two words of letters and digits
    'a.b/c' não é um IBI: tem 2 partes ligadas por '/', mas um nome de repositório tem quatro (subdomínio/palavra/ano/mês.dia.hora.minuto) e um IBIp tem duas palavras de letras e dígitos

8JMKD3MGP8W/
    '8JMKD3MGP8W/' is no IBI: the second part is empty
    '8JMKD3MGP8W/' não é um IBI: a segunda parte está vazia

8JMKD3MGP8I/34
    '8JMKD3MGP8I/34' is no IBI: the first part has 'I', where an IBIp has 2 to 9 and the letters A to U but I and O, with W and X to separate
    '8JMKD3MGP8I/34' não é um IBI: a primeira parte tem 'I', mas um IBIp só tem 2 a 9 e as letras de A a U, menos I e O, com W e X para separar

8JMKD3MGP8W/0
    '8JMKD3MGP8W/0' is no IBI: the second part has '0', where an IBIp has 2 to 9 and the letters A to U but I and O, with W and X to separate
    '8JMKD3MGP8W/0' não é um IBI: a segunda parte tem '0', mas um IBIp só tem 2 a 9 e as letras de A a U, menos I e O, com W e X para separar

8JMKD3MGP8/34PGRBS
    '8JMKD3MGP8/34PGRBS' is no IBI: the first part has no 'W' or 'X', where one stands between address and port
    '8JMKD3MGP8/34PGRBS' não é um IBI: a primeira parte não tem 'W' nem 'X', mas um deles deve estar entre o endereço e a porta

8W3W/2
    '8W3W/2' is no IBI: the first part has 'W' or 'X' 2 times, where one stands between address and port
    '8W3W/2' não é um IBI: a primeira parte tem 'W' ou 'X' 2 vezes, mas só um deve estar entre o endereço e a porta

W/2
    'W/2' is no IBI: the first part has no code of an address in front of 'W' or 'X'
    'W/2' não é um IBI: a primeira parte não tem o código de um endereço antes de 'W' ou 'X'

8W/X2
    '8W/X2' is no IBI: the second part has 'X', where only 'W' may separate seconds and fraction
    '8W/X2' não é um IBI: a segunda parte tem 'X', mas só 'W' pode separar os segundos da fração

8W/W2
    '8W/W2' is no IBI: the second part has no code of seconds in front of 'W'
    '8W/W2' não é um IBI: a segunda parte não tem o código dos segundos antes de 'W'

8W/2W2W2
    '8W/2W2W2' is no IBI: the second part has more than one 'W', where one stands before the fraction
    '8W/2W2W2' não é um IBI: a segunda parte tem mais de um 'W', mas só um deve estar antes da fração

8W/2W
    '8W/2W' is no IBI: the second part has no code of a fraction behind 'W'
    '8W/2W' não é um IBI: a segunda parte não tem o código de uma fração depois de 'W'

a..br/m/2009/02.16.17.46
    'a..br/m/2009/02.16.17.46' is no IBI: word 2 of the subdomain, '', is empty
    'a..br/m/2009/02.16.17.46' não é um IBI: a palavra 2 do subdomínio, '', está vazia

a@b.br/m/2009/02.16.17.46
    'a@b.br/m/2009/02.16.17.46' is no IBI: word 1 of the subdomain, 'a@b', has '@', where only letters, digits and hyphens may stand
    'a@b.br/m/2009/02.16.17.46' não é um IBI: a palavra 1 do subdomínio, 'a@b', tem '@', mas só pode ter letras, dígitos e hifens

a.1br/m/2009/02.16.17.46
    'a.1br/m/2009/02.16.17.46' is no IBI: word 2 of the subdomain, '1br', is the last one of its domain and must begin with a letter
    'a.1br/m/2009/02.16.17.46' não é um IBI: a palavra 2 do subdomínio, '1br', é a última de seu domínio e deve começar com uma letra

inpe.br/-m/2009/02.16.17.46
    'inpe.br/-m/2009/02.16.17.46' is no IBI: the word behind the subdomain, '-m', has a hyphen at an end, where a letter or digit must stand
    'inpe.br/-m/2009/02.16.17.46' não é um IBI: a palavra depois do subdomínio, '-m', começa ou termina com hífen, onde deve estar uma letra ou um dígito

a.br/m./2009/02.16.17.46
    'a.br/m./2009/02.16.17.46' is no IBI: the second part ends with '.', where the digits of a port must follow
    'a.br/m./2009/02.16.17.46' não é um IBI: a segunda parte termina com '.', mas depois devem vir os dígitos de uma porta

a.br/m.x/2009/02.16.17.46
    'a.br/m.x/2009/02.16.17.46' is no IBI: the port, 'x', is not made of digits only
    'a.br/m.x/2009/02.16.17.46' não é um IBI: a porta, 'x', não é feita só de dígitos

a.br/m/09/02.16.17.46
    'a.br/m/09/02.16.17.46' is no IBI: the year, '09', is none of 0001 to 9999, in four digits
    'a.br/m/09/02.16.17.46' não é um IBI: o ano, '09', deve ser um número de 0001 a 9999, com quatro dígitos

a.br/m/2009/13.16.17.46
    'a.br/m/2009/13.16.17.46' is no IBI: the month, '13', is none of 01 to 12, in two digits
    'a.br/m/2009/13.16.17.46' não é um IBI: o mês, '13', deve ser um número de 01 a 12, com dois dígitos

a.br/m/2009/02.32.17.46
    'a.br/m/2009/02.32.17.46' is no IBI: the day, '32', is none of 01 to 31, in two digits
    'a.br/m/2009/02.32.17.46' não é um IBI: o dia, '32', deve ser um número de 01 a 31, com dois dígitos

a.br/m/2009/02.16.24.46
    'a.br/m/2009/02.16.24.46' is no IBI: the hour, '24', is none of 00 to 23, in two digits
    'a.br/m/2009/02.16.24.46' não é um IBI: a hora, '24', deve ser um número de 00 a 23, com dois dígitos

a.br/m/2009/02.16.17.60
    'a.br/m/2009/02.16.17.60' is no IBI: the minute, '60', is none of 00 to 59, in two digits
    'a.br/m/2009/02.16.17.60' não é um IBI: o minuto, '60', deve ser um número de 00 a 59, com dois dígitos

a.br/m/2009/02.16.17.46.60
    'a.br/m/2009/02.16.17.46.60' is no IBI: the second, '60', is none of 00 to 59, in two digits
    'a.br/m/2009/02.16.17.46.60' não é um IBI: o segundo, '60', deve ser um número de 00 a 59, com dois dígitos

a.br/m/2009/02
    'a.br/m/2009/02' is no IBI: the date ends before the day, where month.day.hour.minute is needed
    'a.br/m/2009/02' não é um IBI: a data termina antes do dia, mas deve ter a forma mês.dia.hora.minuto

a.br/m/2009/02.16
    'a.br/m/2009/02.16' is no IBI: the date ends before the hour, where month.day.hour.minute is needed
    'a.br/m/2009/02.16' não é um IBI: a data termina antes da hora, mas deve ter a forma mês.dia.hora.minuto

a.br/m/2009/02.16.17
    'a.br/m/2009/02.16.17' is no IBI: the date ends before the minute, where month.day.hour.minute is needed
    'a.br/m/2009/02.16.17' não é um IBI: a data termina antes do minuto, mas deve ter a forma mês.dia.hora.minuto

a.br/m/2009/02.30.17.46
    'a.br/m/2009/02.30.17.46' is no IBI: the day, '30', does not exist in month 02 of 2009
    'a.br/m/2009/02.30.17.46' não é um IBI: o dia, '30', não existe no mês 02 de 2009

a.br/m/2009/02.16.17.46.00.1.2
    'a.br/m/2009/02.16.17.46.00.1.2' is no IBI: the date has too many parts, where nothing may follow the fraction
    'a.br/m/2009/02.16.17.46.00.1.2' não é um IBI: a data tem partes demais; nada pode vir depois da fração

a.br/m/2009/02.16.17.46.00.x
    'a.br/m/2009/02.16.17.46.00.x' is no IBI: the fraction of the second, 'x', is not made of digits only
    'a.br/m/2009/02.16.17.46.00.x' não é um IBI: a fração do segundo, 'x', não é feita só de dígitos

a.br/m.0/2009/02.16.17.46
    its port, 0, is not within 1 to 65535
    sua porta, 0, não está entre 1 e 65535

NEW/GADGETS
    its first part gives no address and port: 'NE' is the code of '462', which is no IPv4 address
    sua primeira parte não indica um endereço e uma porta: 'NE' é o código de '462', que não é um endereço IPv4

88888888888888888888888888888888888W/2
    its first part gives no address and port: '88888888888888888888888888888888888' is too long for the code of an IPv4 address
    sua primeira parte não indica um endereço e uma porta: '88888888888888888888888888888888888' é longo demais para o código de um endereço IPv4

8JMKD3MGP8W2/34PGRBS
    its first part gives no address and port: '2' is the code of no port within 1 to 65535
    sua primeira parte não indica um endereço e uma porta: '2' não é o código de uma porta entre 1 e 65535

8JMKD3MGP8W34K/34PGRBS
    its first part gives no address and port: 150.163.34.243 with port 800 is written '8JMKD3MGP8W', not '8JMKD3MGP8W34K'
    sua primeira parte não indica um endereço e uma porta: 150.163.34.243 com a porta 800 se escreve '8JMKD3MGP8W', e não '8JMKD3MGP8W34K'

8JMKD3MGP8W/UUUUUUUUU
    its second part gives no date: POSIX second 7626404720186 is not within the years 0001 to 9999
    sua segunda parte não indica uma data: o segundo POSIX 7626404720186 fica fora dos anos 0001 a 9999

8JMKD3MGP8W/234PGRBS
    its second part gives no date: its date is written '34PGRBS', not '234PGRBS'
    sua segunda parte não indica uma data: sua data se escreve '34PGRBS', e não '234PGRBS'
"""  # noqa: E501

LONG = "a" * 300
ROWS = [
    *(tuple(row.split("\n    ")) for row in TABLE.strip().split("\n\n")),
    (
        "a" * 9000,
        "it is too long; at most 8192 characters may stand behind the host",
        "é longa demais; depois do nome do servidor podem vir no máximo 8192 caracteres",
    ),
    (
        f"8JMKD3MGP8W/35MMLL8/{'&' * 1366}",
        "the path behind the IBI is too long; at most 4096 characters can be sent to an Archive, where each of "
        "& = + ? counts as three",
        "o caminho depois do IBI é longo demais; no máximo 4096 caracteres podem ser enviados a um Arquivo, e "
        "cada um de & = + ? conta como três",
    ),
    (
        LONG,
        f"'{LONG}' is no IBI: it has 300 characters, where at most 255 are allowed",
        f"'{LONG}' não é um IBI: tem 300 caracteres, mas são permitidos no máximo 255",
    ),
    (
        f"8JMKD3MGP8W/34PGRBSW{'3' * 220}",
        "its second part gives no date: date of more than 60 digits has no exact decimal text of 255 digits or "
        "fewer; a fraction of a second is a number of tenths, hundredths and so on",
        "sua segunda parte não indica uma data: a data, de mais de 60 dígitos, não tem um texto decimal exato "
        "de no máximo 255 dígitos; uma fração de segundo é um número de décimos, centésimos e assim por diante",
    ),
]
BROWSER = "text/html,*/*;q=0.8"

each_row = pytest.mark.parametrize(
    ("text", "english", "portuguese"), ROWS, ids=[text[:40] for text, *_ in ROWS]
)


def reason_of(text: str) -> str:
    """Return what is wrong with a text, as the front page asks for it; "" where nothing is."""
    try:
        decode_identifier(read_persistent_url(text).ibi)
    except (MalformedPersistentUrl, IdentifierError) as error:
        return error.rule
    return ""


# --- the table


@each_row
def test_a_reason_is_told_in_both_languages(text: str, english: str, portuguese: str) -> None:
    assert reason_of(text) == english
    assert translate_reason(english, "en") == english
    assert translate_reason(english, "pt") == portuguese


def test_each_template_has_a_row() -> None:
    parts = [[template for template, _ in split_reason(english)] for _, english, _ in ROWS]
    assert all(parts)
    assert Counter(templates[-1] for templates in parts) == Counter(REASONS.keys())
    assert {lead for templates in parts for lead in templates[:-1]} == set(LEADS)


@pytest.mark.parametrize(("english", "portuguese"), [*LEADS.items(), *REASONS.items()])
def test_a_translation_has_the_fields_of_its_template(english: str, portuguese: str) -> None:
    fields = re.findall("[{][^}]*[}]", english)
    assert fields == re.findall("[{][^}]*[}]", portuguese)
    assert set(fields) <= {"{}"}
    assert (portuguese != english) or english == "{}: "


@pytest.mark.parametrize(
    "reason",
    [
        "",
        "a reason of another kind",
        "'x' is no IBI: a reason of another kind",
        "'x' is no IBI: ",
        "the second part is empty, and so on",
        "the port, x y, is not made of digits only",
    ],
)
def test_a_reason_of_another_kind_stays_english(reason: str) -> None:
    assert split_reason(reason) == []
    assert translate_reason(reason, "pt") == reason


# --- any text

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
def spoilt(draw: st.DrawFn) -> str:
    """Return a text that was good, with a few places spoilt."""
    text = draw(st.sampled_from(GOOD))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(text)))
        scrap = draw(st.one_of(st.sampled_from(SCRAPS), st.text(max_size=3)))
        text = text[:place] + scrap + text[place + draw(st.integers(0, 3)) :]
    return text


@given(st.one_of(spoilt(), spoilt(), st.text()))
@settings(max_examples=400)
def test_any_reason_has_a_template_and_its_fields_stay(text: str) -> None:
    if not (reason := reason_of(text)):
        return
    parts = split_reason(reason)
    assert parts
    assert "".join(template.format(*fields) for template, fields in parts) == reason
    said = translate_reason(reason, "pt")
    assert said != reason
    for field in [field for _, fields in parts for field in fields]:
        _, found, said = said.partition(field)
        assert found


@pytest.mark.parametrize(
    "scrap",
    [
        "a",
        "'",
        '"',
        "'\\'",
        "!: ",
        "'x' is no IBI: ",
        "word 1 of the subdomain, 'x', ",
        "'x' is 'x'; ",
    ],
)
def test_a_long_text_takes_no_longer_than_it_is_long(scrap: str) -> None:
    reason = scrap * 50_000
    assert translate_reason(reason, "pt") == reason


# --- the pages

ASKED = "/8JMKD3MGP8W/35MMLL8;%3Cb%3E&x"
WRONG = "'8JMKD3MGP8W/35MMLL8;<b>&x'"
SAID = {
    "en": f"{WRONG} is no IBI: ';' at position 20 is no character of an identifier",
    "pt": f"{WRONG} não é um IBI: ';', na posição 20, não é permitido em um identificador",
}


@pytest.fixture(scope="module")
def app() -> Flask:
    """An app with a front page, and an alert of another kind of reason behind it."""
    odd = Alert(AlertKind.MALFORMED, None, reason="of another kind")
    return resolver_app(lambda *asked: alert_response(odd))


def see(app: Flask, target: str, language: str) -> Answer:
    """Look at a page as a browser does."""
    return ask(app, target, headers={"Accept": BROWSER, "Accept-Language": language})


def language_of(page: Page, tag: str) -> str | None:
    """Return the language of the last element of a kind."""
    [*_, attrs] = [attrs for name, attrs in page.tags if name == tag]
    return attrs.get("lang", page.html["lang"])


@pytest.mark.parametrize("language", ["en", "pt", "pt-BR"])
def test_the_alert_says_the_reason_in_the_reader_s_language(app: Flask, language: str) -> None:
    said = SAID[language[:2]]
    answer = see(app, ASKED, language)
    assert answer.status == 400
    assert f">{escape(said)}</dd>" in answer.text
    assert said in Page(answer.text).text("dd")
    assert language_of(Page(answer.text), "dd") == language[:2]


def test_programs_are_told_in_english_alone(app: Flask) -> None:
    answer = ask(app, ASKED, headers={"Accept-Language": "pt"})
    assert SAID["en"] in " ".join(answer.pairs["alert"])


def test_a_reason_without_a_translation_is_marked_as_english(app: Flask) -> None:
    page = Page(see(app, "/8JMKD3MGP8W/35MMLL8", "pt").text)
    assert "of another kind" in page.text("dd")
    assert (page.html["lang"], language_of(page, "dd")) == ("pt", "en")


@each_row
def test_the_front_page_says_it_in_the_reader_s_language(
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
