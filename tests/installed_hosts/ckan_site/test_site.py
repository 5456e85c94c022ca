"""A running CKAN with the extension: commands, pages in a browser, an answer to a resolver."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import Page, expect
from support.loopback import free_port

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.messages import UrlRequest, format_request
from flask_ibi_archive.core.protocol.pairs import pairs_as_dict, parse_pairs

EXTENSION = Path(__file__).parent / "ckanext-ibi"
#: What a curator types into ``ckan shell``.
BEGIN = """
user = toolkit.get_action("get_site_user")({"ignore_auth": True}, {})["name"]
act = lambda action, **values: toolkit.get_action(action)({"user": user}, values)
link = [{"name": "Data.csv", "url": toolkit.config["ckan.site_url"] + "/about"}]
"""
CREATE = """
from ckan import model
others = [each.id for each in model.Session.query(model.Package)]
purged = [act("dataset_purge", id=each) for each in others]
act("package_create", name="snow", title="Snow & ice", author="Silva", resources=link)
act("organization_create", name="agency")
act("package_create", name="plans", title="Secret plans", private=True, owner_org="agency")
"""
#: Seconds until CKAN has started, even on a slow computer.
PATIENCE = 120


def list_items(installation: Any) -> dict[str, dict[str, str]]:
    """Return the identifiers of each item that ``ckan ibi list`` names, by title."""
    lines = [line.split("\t") for line in installation.run("ibi", "list").splitlines()]
    return {title: {"rep": rep, "ibip": ibip} for rep, ibip, *_, title in lines[1:]}


@contextmanager
def running(installation: Any, port: int) -> Iterator[str]:
    """Run the server of CKAN, and yield its URL."""
    url = f"http://127.0.0.1:{port}"
    command = [installation.program, "-c", installation.ini, "run", "--disable-reloader"]
    server = subprocess.Popen([*command, "-H", "127.0.0.1", "-p", str(port)])
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                requests.get(f"{url}/ibi/health/live", timeout=PATIENCE).raise_for_status()
                break
            except requests.ConnectionError:
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="module")
def site(installation: Any) -> Iterator[str]:
    """The URL of a CKAN that had two datasets before it got the extension."""
    port = free_port()
    installation.configure(**{"ckan.plugins": "", "ckan.site_url": f"http://127.0.0.1:{port}"})
    installation.run("shell", typed=BEGIN + CREATE)
    installation.embed(f"127.0.0.1:{port}", f"sqlite:///{installation.folder}/site.sqlite")
    installation.run("ibi", "init")
    installation.run("shell", typed=(EXTENSION / "identify.py").read_text())
    with running(installation, port) as url:
        yield url


@pytest.fixture(scope="module")
def item(site: str, installation: Any) -> dict[str, str]:
    """The only public item."""
    [(title, item)] = list_items(installation).items()
    assert title == "Snow & ice"
    return item


@pytest.fixture(scope="module")
def checks(site: str, installation: Any) -> list[str]:
    """The lines of ``ckan ibi check``."""
    return installation.run("ibi", "check").splitlines()


def test_each_check_passes(checks: list[str]) -> None:
    assert [line for line in checks if not line.startswith("ok ")] == []
    found = {line.split(":")[0].removeprefix("ok").strip() for line in checks}
    assert {"pages", "persistent URLs", "address", "catalogue"} <= found


def test_the_pages_are_in_the_layout_and_the_language_of_ckan(
    site: str, item: dict[str, str], tab: Page
) -> None:
    tab.goto(f"{site}/dataset/snow")
    shown = tab.get_by_role("row", name="IBI").get_by_role("link")
    assert shown.inner_text() == shown.get_attribute("href") == f"{site}/{item['ibip']}"
    for language, title in (("", "Persistent URL"), ("/pt_BR", "URL persistente")):
        answer = tab.goto(f"{site}{language}/col/{item['ibip']}/")
        assert answer is not None
        assert answer.status == 200
        expect(tab.get_by_role("heading", level=1)).to_have_text("Snow & ice")
        expect(tab.get_by_role("heading", name=title)).to_be_visible()
        expect(tab.locator("header.masthead")).to_be_visible()
        expect(tab.locator("footer.site-footer")).to_be_visible()
        box = tab.locator(".ibi-page").bounding_box()
        header = tab.locator("header.masthead .container").bounding_box()
        assert box is not None
        assert header is not None
        assert header["x"] < box["x"] < box["x"] + box["width"] < header["x"] + header["width"]
    tab.get_by_role("link", name="data.csv", exact=True).click()
    assert tab.url == f"{site}/about"


def test_a_persistent_url_leads_to_the_file_in_spite_of_the_route_for_all_paths(
    site: str, item: dict[str, str], tab: Page
) -> None:
    for ibi in (item["ibip"], item["rep"]):
        answer = tab.goto(f"{site}/{ibi}")
        assert answer is not None
        assert (answer.status, tab.url) == (200, f"{site}/about")
    other = requests.get(f"{site}/base/{item['ibip']}", timeout=PATIENCE)
    assert (other.status_code, "ibi-page" in other.text) == (404, False)


def test_a_url_request_is_answered(site: str, item: dict[str, str], checks: list[str]) -> None:
    query = format_request(UrlRequest(parse_identifier(item["ibip"]), ("203.0.113.9",)))
    [service] = re.findall(r"the service IBI is (\S+)", "\n".join(checks))
    answer = requests.get(f"{site}/{service}?{query}", timeout=PATIENCE)
    assert answer.status_code == 200
    pairs = pairs_as_dict(parse_pairs(answer.content))
    assert pairs["ibi"] == ("rep", item["rep"], "ibip", item["ibip"])
    assert pairs["state"] == ("Original",)
    assert pairs["url"][0].startswith(f"{site}/dataset/")


def test_what_ckan_does_with_a_dataset_is_public_at_once(
    site: str, installation: Any, item: dict[str, str]
) -> None:
    steps = {
        'snow = model.Session.query(model.Package).filter_by(name="snow")\n'
        'snow.update({"title": "Rain"})\n': 200,
        'act("package_patch", id="snow", private=True, owner_org="agency")\n': 404,
        'act("package_patch", id="snow", private=False)\n': 200,
        'act("package_delete", id="snow")\n': 410,
        'act("package_patch", id="snow", state="active")\n': 200,
    }
    answers = "".join(
        f"{step}model.Session.commit(); print('status', requests.get(page).status_code)\n"
        for step in steps
    )
    typed = f"import requests; page = '{site}/col/{item['ibip']}/'\n{BEGIN}{answers}"
    written = installation.run("shell", typed=typed)
    assert [int(status) for status in re.findall(r"status (\d+)", written)] == [*steps.values()]
    assert "Rain" in requests.get(f"{site}/col/{item['ibip']}/", timeout=PATIENCE).text
