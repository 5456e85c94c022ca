"""The language of a page: the URL, the cookie and the browser choose it; a switch keeps it."""

from __future__ import annotations

from collections.abc import Callable

from flask import Flask
from flask_babel import Babel
from markupsafe import Markup
from support.pages import LANGUAGES, Page, reading
from support.web import REPORT, ask, resolver_app

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind
from flask_ibi_archive.server.web import texts as translations
from flask_ibi_archive.server.web.alerts import alert_response

NewApp = Callable[..., Flask]

IBI = "8JMKD3MGP8W/35MMLL8"
HOST = "http://mtc-m16c.sid.inpe.br"
BROWSER = {"Accept": "text/html"}


def test_the_url_precedes_the_cookie_and_the_browser(web: Flask) -> None:
    for query, cookie, browser, language in [
        ("", "", "", "en"),
        ("", "", "pt;q=0, es;q=0.1", "es"),
        ("", "../../x", "pt", "pt"),
        ("?lang=es", "pt", "en", "es"),
        ("?x=%FF&lang=es&lang=pt", "", "en", "pt"),
    ]:
        headers = {"Cookie": f"ibi_language={cookie}" if cookie else "", "Accept-Language": browser}
        answer = ask(web, f"/col/{REPORT}/files{query}", headers=headers)
        assert answer.headers["Content-Language"] == language
        assert {"Accept-Language", "Cookie"} <= set(answer.headers["Vary"].split(", "))
        assert Page(answer.text).html["lang"] == language
    # only the switch sets a cookie and only if it is needed
    for target, headers, cookie in [
        ("?lang=es", {"Referer": f"{HOST}/x"}, "es"),
        ("?lang=es", {"Sec-Fetch-Site": "same-origin"}, "es"),
        ("?lang=es", {"Sec-Fetch-Site": "cross-site", "Referer": f"{HOST}/"}, None),
        ("?lang=pt", {"Referer": f"{HOST}/x", "Cookie": "ibi_language=es"}, ""),
        ("", {"Referer": f"{HOST}/x", "Cookie": "ibi_language=es"}, None),
    ]:
        answer = ask(
            web, f"/col/{REPORT}/files{target}", headers={"Accept-Language": "pt-BR", **headers}
        )
        found = "".join(answer.headers.getlist("Set-Cookie"))
        assert ("Max-Age=0" in found) == (cookie == "")
        kept = f"ibi_language={cookie}; HttpOnly; Path=/; SameSite=Lax"
        assert cookie == "" or found == (kept if cookie else "")


def links_of(text: str) -> dict[str, str]:
    """Return the links of the language switch by language."""
    found = [attrs for tag, attrs in Page(text).tags if tag == "a" and "hreflang" in attrs]
    assert [attrs["lang"] for attrs in found] == [attrs["hreflang"] for attrs in found]
    return {str(attrs["hreflang"]): str(attrs["href"]) for attrs in found}


def test_the_switch_keeps_the_address_and_marks_the_current_language(web: Flask) -> None:
    # the switch keeps the address and the query
    for target, kept in [
        (f"/col/{REPORT}/?lang=pt", f"/col/{REPORT}/?"),
        (f"/col/{REPORT}/statistics?by=day&lang=x&a=b", f"/col/{REPORT}/statistics?by=day&a=b&"),
        ("/col/x%FF/y/?a=%FF&b=<&c", "/col/x%FF/y/?a=%FF&b=%3C&c&"),
    ]:
        text = ask(web, target).text
        links = links_of(text)
        assert tuple(sorted(links)) == LANGUAGES
        for language, link in links.items():
            assert link == f"{kept}lang={language}"
            assert ask(web, link).headers["Content-Language"] == language
    # the switch names the languages and marks the current one
    page = Page(ask(web, f"/col/{REPORT}/?lang=pt").text)
    current = [attrs["hreflang"] for _, attrs in page.tags if attrs.get("aria-current") == "true"]
    assert current == ["pt"]
    for name in ("English", "español", "português"):
        assert name in page.text("a")


def test_the_switch_of_a_mounted_app_and_of_an_alert_stays_on_the_host() -> None:
    unknown = Alert(AlertKind.UNKNOWN, parse_identifier(IBI))
    app = resolver_app(lambda *asked: alert_response(unknown))
    client = app.test_client()
    text = client.get(f"/{IBI}?x=1", base_url=f"{HOST}/app", headers=BROWSER).text
    assert links_of(text)["es"] == f"/app/{IBI}?x=1&lang=es"
    # browsers read two slashes at the beginning as another host
    text = ask(resolver_app(lambda *asked: None), "//a.br/x;", headers=BROWSER).text
    assert not [link for link in links_of(text).values() if link.startswith("//")]


def test_numbers_plurals_and_html_in_messages() -> None:
    # numbers and sizes have the separators of the language
    forms = ("{count} view", "{count} views")
    for language, number, size, one, many in (
        ("en", "1,234,567", "1.5\xa0MB", "1 view", "1,000 views"),
        ("pt", "1.234.567", "1,5\xa0MB", "1 visualização", "1.000 visualizações"),
    ):
        with reading(language):
            assert translations.format_number(1234567) == number
            assert translations.format_size(1_500_000) == size
            # a number chooses the plural form
            assert translations.ngettext(*forms, 1) == one
            assert translations.ngettext(*forms, 1000) == many
    # html in a message is kept and other values are escaped
    with reading("es"):
        link = Markup("<a>x</a>")
        text = translations.gettext("Did you mean {identifier}?", identifier=link)
        assert isinstance(text, Markup)
        assert text == "¿Quiso decir <a>x</a>?"
        plain = translations.gettext("Did you mean {identifier}?", identifier="<b>")
        assert (plain, isinstance(plain, Markup)) == ("¿Quiso decir <b>?", False)


def choose(app: Flask, language: str | None) -> None:
    """Let the host choose the language of the pages."""
    app.extensions["ibi_archive"].functions.choose_language = lambda: language


def test_the_language_of_the_host_precedes_cookie_and_browser(web_with: NewApp) -> None:
    for chosen, cookie, url, expected in [
        ("pt", "es", "", "pt"),
        ("pt_BR", "", "", "pt"),
        ("pt", "", "?lang=es", "es"),
        ("fr", "es", "", "es"),
        (None, "", "", "en"),
    ]:
        app = web_with()
        choose(app, chosen)
        headers = {**BROWSER, "Accept-Language": "en", "Cookie": f"ibi_language={cookie}"}
        answer = ask(app, f"/col/{REPORT}/{url}", headers=headers)
        assert answer.headers["Content-Language"] == expected
    # no cookie keeps a language where the host chooses
    app = web_with()
    headers = {**BROWSER, "Referer": f"{HOST}/ibi/items"}
    for chosen, has_cookie in ((None, True), ("pt", False)):
        choose(app, chosen)
        answer = ask(app, f"/col/{REPORT}/?lang=es", headers=headers)
        assert answer.headers["Content-Language"] == "es"
        assert ("Set-Cookie" in answer.headers) is has_cookie
    # the language of flask babel is used
    app = web_with()
    Babel(app, locale_selector=lambda: "pt_BR")
    headers = {**BROWSER, "Accept-Language": "en"}
    page = f"/col/{REPORT}/"
    assert ask(app, page, headers=headers).headers["Content-Language"] == "pt"
    choose(app, "es")
    assert ask(app, page, headers=headers).headers["Content-Language"] == "es"
