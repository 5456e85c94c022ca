"""The static map: a real nginx leads persistent URLs to the Archives without any resolver."""

from __future__ import annotations

import http.client
import json
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from flask import Flask
from support.commands import Outcome, command
from support.loopback import PATIENCE, free_port
from support.registries import KEY, a_registry, a_request
from support.resolving import resolver_of

from flask_ibi_archive.core.claims.claim import Claim, format_claim
from flask_ibi_archive.core.claims.tiles import WIDTH
from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.claims.entry_check import MAX_NAMES
from flask_ibi_archive.resolver.claims.kept_logs import KeptLogs
from flask_ibi_archive.resolver.claims.static_map import MARK
from flask_ibi_archive.resolver.commands import ibi_resolver

NGINX = shutil.which("nginx")
needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
#: The addresses of the Archives 1, 2 and 3.
A, B, GONE = "a.example.org", "b.example.org:8080", "gone.example.org"

ALIASES = (
    "doi:10.5281/zenodo.1234567",
    "hdl:20.500.12345/678",
    "hdl:20.500.12345/a$b'(c)",
    "hdl:20.500.12345/a%20b",
    "hdl:20.500.12345/caf%C3%A9",
    "ark:12345/x54xz321",
    "urn:nbn:br:bn-123",
    "http://old.example.org/handle/1/2",
    "https://old.example.org/a/b.html",
)
#: Aliases that no file can express.
LEFT_OUT = ("http://old.example.org/view?id=1", "hdl:20.500.12345/a%0Ab", "hdl:20.500.12345/../x")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Flask]:
    """A resolver with three Archives, one of which is excluded; no logs are kept yet."""
    app = Flask("resolver", instance_path=str(tmp_path / "instance"))
    app.config.from_mapping(IBI_RESOLVER_DATABASE_URI="sqlite://")
    IBIResolver(app)
    resolver = resolver_of(app)
    resolver.init()
    registry = a_registry(resolver.database)
    for number, address in enumerate((A, B, GONE), 1):
        service = f"a.br/service/2000/01.01.00.{number:02}"
        registry.register(service, KEY)
        registry.process(a_request(service_ibi=service, address=address))
    registry.process(a_request(EXCLUSION_REQUEST, service_ibi=service, address=GONE))
    yield app
    resolver.close()


def keep(app: Flask, archive_id: int, *claims: Claim | bytes) -> None:
    """Write the log of an Archive."""
    logs = KeptLogs(resolver_of(app).config.claims_folder / "logs")
    entries = [one if isinstance(one, bytes) else format_claim(one) for one in claims]
    for number in range((len(entries) + WIDTH - 1) // WIDTH):
        part = entries[number * WIDTH : (number + 1) * WIDTH]
        logs.write_bundle(archive_id, 1, number, part)


def claim(
    number: int, state: State = State.ORIGINAL, *aliases: str, time: str = "2026-03-01"
) -> Claim:
    """Return the claim of an item with both forms."""
    rest, minute = divmod(number, 60)
    day, hour = divmod(rest, 24)
    rep = f"sid.inpe.br/mtc-m18@80/2009/01.{day + 1:02}.{hour:02}.{minute:02}"
    digits = "23456789ABCDEFGHJKLMNPQRSTU"
    ibip = f"8JMKD3MGP8W/35M{digits[number // 729]}{digits[number // 27 % 27]}{digits[number % 27]}"
    original = "a.br/service/2000/01.01.00.09" if state is State.COPY else None
    return Claim(rep, ibip, state, f"{time}T12:00:00Z", original, aliases)


def export(app: Flask, folder: Path) -> Outcome:
    return command(app, "export-map", folder, group=ibi_resolver)


def names_of(folder: Path) -> dict[str, str]:
    """Return the names in the map for nginx with their targets."""
    text = (folder / "nginx" / "names.map").read_text("utf-8")
    found = dict(re.findall(r'^"(.+)" "(.+)";$', text, re.MULTILINE))
    assert len(found) == text.count("\n")
    return found


@contextmanager
def nginx(folder: Path, work: Path, *servers: str) -> Iterator[list[str]]:
    """Run nginx with the map in a folder, and yield the addresses of its servers.

    :param servers: the directives of each server.
    """
    work.mkdir()
    if not (work / "ibi").exists():
        shutil.copytree(folder / "nginx", work / "ibi")
    ports = [free_port() for _ in servers]
    blocks = "\n".join(
        f"server {{ listen 127.0.0.1:{port}; {directives} }}"
        for port, directives in zip(ports, servers, strict=True)
    )
    temporary = " ".join(
        f"{kind}_temp_path {work}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = work / "nginx.conf"
    config.write_text(
        f"daemon off; master_process off; pid {work}/pid; error_log {work}/error.log notice;"
        f"events {{}} http {{ access_log off; {temporary} include ibi/http.conf; {blocks} }}"
    )
    assert NGINX is not None
    test = subprocess.run(
        [NGINX, "-t", "-p", work, "-c", config], capture_output=True, text=True, check=False
    )
    assert test.returncode == 0, test.stderr
    assert "[warn]" not in test.stderr
    process = subprocess.Popen([NGINX, "-p", work, "-c", config], stderr=subprocess.PIPE)
    try:
        for port in ports:
            while True:
                assert process.poll() is None, (work / "error.log").read_text()
                with closing(http.client.HTTPConnection("127.0.0.1", port, 5)) as connection:
                    try:
                        connection.connect()
                        break
                    except ConnectionRefusedError:
                        continue
        yield [f"127.0.0.1:{port}" for port in ports]
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def get(address: str, target: str) -> tuple[int, str | None, str]:
    """Return the status, the Location and the body of a response."""
    with closing(http.client.HTTPConnection(address, timeout=PATIENCE)) as connection:
        connection.request("GET", target)
        response = connection.getresponse()
        return response.status, response.getheader("Location"), response.read().decode()


class Page(HTMLParser):
    """The three places where a page names its target."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str | None] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("a", "link"):
            self.targets.append(values["href"])
        elif values.get("http-equiv") == "refresh":
            self.targets.append(str(values["content"]).removeprefix("0; url="))


# --- which Archive a name leads to ---------------------------------------------------------------


def test_a_name_leads_to_the_archive_that_claims_it_last_as_original(
    app: Flask, tmp_path: Path
) -> None:
    original, copy, deleted = State.ORIGINAL, State.COPY, State.DELETED
    keep(
        app,
        1,
        claim(0),
        claim(1, time="2026-01-01"),
        claim(2, copy, time="2026-01-01"),
        claim(3, deleted, time="2026-09-01"),
        claim(4, original),
        claim(4, deleted),  # the last claim of an Archive counts, whatever its time
        claim(5, deleted),
        b"junk",
    )
    keep(
        app,
        2,
        claim(0, copy, time="2026-09-01"),
        claim(1, time="2026-02-01"),
        claim(2, copy, time="2026-02-01"),
        claim(3, copy, time="2026-01-01"),
        claim(4, copy, time="2026-01-01"),
        claim(6),
        claim(7, original, *[f"doi:10.5281/{number}" for number in range(MAX_NAMES)]),
    )
    keep(app, 3, claim(8))
    keep(app, 9, claim(9))
    assert export(app, tmp_path / "map").data == "14 names, 14 pages, 0 left out\n"
    places = {0: A, 1: B, 2: B, 3: B, 4: B, 5: A, 6: B}
    assert names_of(tmp_path / "map") == {
        f"/{name}": f"http://{place}/{name}"
        for number, place in places.items()
        for name in claim(number).identifiers
    }


def test_an_alias_leads_to_the_item_that_has_it_or_had_it_last(app: Flask, tmp_path: Path) -> None:
    keep(
        app,
        1,
        claim(0, State.ORIGINAL, "doi:10.5281/a", "doi:10.5281/b"),
        claim(0, State.ORIGINAL),
        claim(1, State.ORIGINAL, "doi:10.5281/B"),
    )
    export(app, tmp_path / "map")
    names = names_of(tmp_path / "map")
    assert names["/doi:10.5281/a"] == f"http://{A}/{claim(0).rep}"
    assert names["/doi:10.5281/B"] == f"http://{A}/{claim(1).rep}"
    assert len(names) == 6


# --- real servers --------------------------------------------------------------------------------


@pytest.mark.slow
@needs_nginx
def test_nginx_leads_to_the_archives(app: Flask, tmp_path: Path) -> None:
    random_ = random.Random(5)
    claims = [claim(number, State.ORIGINAL) for number in range(300)]
    with_aliases = claim(300, State.ORIGINAL, *ALIASES, *LEFT_OUT)
    legacy = ["6qtX3pFwXQZGivnJSY/Gnpch", "6qtX3pFwXQZGivnJSY/gnpch", "abZ/1"]
    keep(app, 1, *claims[:150], with_aliases)
    keep(
        app,
        2,
        *claims[150:],
        *[claim(301 + n, State.ORIGINAL, name) for n, name in enumerate(legacy)],
    )
    assert export(app, tmp_path / "map").data == "620 names, 620 pages, 3 left out\n"
    assert json.loads((tmp_path / "map" / MARK).read_text())["names"] == 620
    tree = f"root {tmp_path}/map/html;"
    with nginx(tmp_path / "map", tmp_path / "nginx", "include ibi/server.conf;", tree) as (
        by_map,
        by_tree,
    ):
        for one in claims:
            place = A if one in claims[:150] else B
            for name in one.identifiers:
                url = f"http://{place}/{name}"
                shown = random_.choice([name, name.upper(), name.lower(), name.title()])
                assert get(by_map, f"/{shown}")[:2] == (302, url)
                status, _, page = get(by_tree, f"/{name}/")
                assert (status, Page(page).targets) == (200, [url] * 3)
                assert get(by_tree, f"/{name}")[0] == 301
        # modifiers, paths, queries and prefixes
        for name in claims[0].identifiers:
            for prefix in ("", "/rep", "/ibi"):
                for rest in ("!", ":(oai_dc)", "+(pt-BR):", "/a%20b/c.pdf", "!/d%0D%0AX:y?a=%20&b"):
                    target = get(by_map, f"{prefix}/{name}{rest}")[:2]
                    assert target == (302, f"http://{A}/{name}{rest}")
            required = f"/{name}?ibiurl.requireditemstatus=Original"
            assert get(by_map, required)[:2] == (302, f"http://{A}{required}")
        # aliases
        item = f"http://{A}/{with_aliases.rep}"
        for alias in ALIASES:
            assert get(by_map, f"/{alias}")[:2] == (302, item), alias
            # a client may encode more characters
            assert get(by_map, f"/{quote(alias, safe='%/')}")[:2] == (302, item), alias
            status, _, page = get(by_tree, f"/{alias}/")
            assert (status, Page(page).targets) == (200, [item] * 3), alias
        # identifiers from before the standard differ in their case
        for number, name in enumerate(legacy):
            target = f"http://{B}/{claim(301 + number).rep}"
            assert get(by_map, f"/{name}")[:2] == (302, target)
            assert Page(get(by_tree, f"/{name}/")[2]).targets == [target] * 3
        assert get(by_map, "/6qtX3pFwXQZGivnJSY/GNPCH")[0] == 404
        for unknown in ("/", "/8JMKD3MGP8W/2", "/favicon.ico", "/doi:10.1/2"):
            assert get(by_map, unknown)[0] == 404
            assert get(by_tree, unknown)[0] in (403, 404)


@pytest.mark.slow
@needs_nginx
def test_nginx_reads_long_names(app: Flask, tmp_path: Path) -> None:
    long = "hdl:20.500.12345/" + "/".join("x" * 200 for _ in range(9))
    wide = "hdl:20.500.12345/" + "x" * 400
    keep(app, 1, claim(0, State.ORIGINAL, long, wide))
    assert export(app, tmp_path / "map").data == "4 names, 3 pages, 0 left out\n"
    with nginx(tmp_path / "map", tmp_path / "nginx", "include ibi/server.conf;") as (address,):
        for alias in (long, wide):
            assert get(address, f"/{alias}")[:2] == (302, f"http://{A}/{claim(0).rep}")


# --- the folder ----------------------------------------------------------------------------------


def test_the_files_are_replaced_when_the_new_ones_are_complete(app: Flask, tmp_path: Path) -> None:
    folder = tmp_path / "maps" / "map"
    keep(app, 1, claim(0))
    export(app, folder)
    before = names_of(folder)
    keep(app, 1, *[claim(number) for number in range(300)])
    path = resolver_of(app).config.claims_folder / "logs/1/1/tile/entries/000.gz"
    content = path.read_bytes()
    path.write_bytes(content[:100])
    assert "is damaged" in export(app, folder).error
    assert names_of(folder) == before
    path.write_bytes(content)
    assert export(app, folder).data == "600 names, 600 pages, 0 left out\n"
    assert len(names_of(folder)) == 600
    assert [path.name for path in (tmp_path / "maps").iterdir()] == ["map"]


def test_another_folder_is_not_replaced(app: Flask, tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    assert export(app, folder).data == "0 names, 0 pages, 0 left out\n"
    (folder / MARK).unlink()
    assert "is no map" in export(app, folder).error
    (tmp_path / "home.new").mkdir()
    (tmp_path / "home.new" / "letter.txt").write_text("Dear")
    (folder / MARK).write_text("{}")
    assert "home.new exists and is no map" in export(app, folder).error
    assert (tmp_path / "home.new" / "letter.txt").read_text() == "Dear"
