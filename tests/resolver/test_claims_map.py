"""The static map: a real nginx leads persistent URLs to the Archives without any resolver."""

from __future__ import annotations

import errno
import http.client
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from flask import Flask
from support.claiming import store_claims
from support.commands import Outcome, command
from support.loopback import PATIENCE, free_port
from support.registries import KEY, NOON, a_registry, a_request
from support.resolving import resolver_of

from flask_ibi_archive.core.claim import Claim
from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.commands import export_map, ibi_resolver

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
#: The block that the first lines of the map describe.
SERVER = (
    "location / { if ($ibi_target) { return 302 $ibi_target$ibi_rest$is_args$args; } return 404; }"
)
#: Aliases that no path can express.
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
        service = f"{'abc'[number - 1]}.br/service/2000/01.01.00.{number:02}"
        registry.register(service, KEY)
        registry.process(a_request(service_ibi=service, address=address))
    registry.process(a_request(EXCLUSION_REQUEST, service_ibi=service, address=GONE))
    yield app
    resolver.close()


def keep(app: Flask, archive_id: int, *claims: Claim, hours: int = 0) -> None:
    """Store claims of an Archive.

    :param hours: when they were read.
    """
    since = NOON + timedelta(hours=hours)
    store_claims(resolver_of(app).database, {archive_id: claims}, since=since)


def claim(number: int, state: State = State.ORIGINAL, *aliases: str, **values: str) -> Claim:
    """Return the claim of an item with both forms."""
    rest, minute = divmod(number, 60)
    day, hour = divmod(rest, 24)
    rep = f"sid.inpe.br/mtc-m18@80/2009/01.{day + 1:02}.{hour:02}.{minute:02}"
    digits = "23456789ABCDEFGHJKLMNPQRSTU"
    ibip = f"8JMKD3MGP8W/35M{digits[number // 729]}{digits[number // 27 % 27]}{digits[number % 27]}"
    original = "a.br/service/2000/01.01.00.09" if state is State.COPY else None
    facts = {"rep": rep, "ibip": ibip, **values}
    return Claim(
        str(number),
        facts["rep"],
        facts["ibip"],
        state,
        "2026-03-01T12:00:00Z",
        original,
        aliases,
    )


def export(app: Flask, folder: Path) -> Outcome:
    return command(app, "export-map", folder, group=ibi_resolver)


def names_of(path: Path) -> dict[str, str]:
    """Return the names in the map with their targets."""
    _, _, names = path.read_text("utf-8").rpartition('default "";\n')
    found = dict(re.findall(r'^"(.+)" "(.+)";$', names, re.MULTILINE))
    assert len(found) + 1 == names.count("\n")
    return found


@contextmanager
def nginx(path: Path, work: Path) -> Iterator[str]:
    """Run nginx with a map, and yield the address of its server."""
    work.mkdir()
    port = free_port()
    temporary = " ".join(
        f"{kind}_temp_path {work}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = work / "nginx.conf"
    config.write_text(
        f"daemon off; master_process off; pid {work}/pid; error_log {work}/error.log notice;"
        f"events {{}} http {{ access_log off; {temporary} include {path};"
        f"server {{ listen 127.0.0.1:{port}; {SERVER} }} }}"
    )
    assert NGINX is not None
    test = subprocess.run(
        [NGINX, "-t", "-p", work, "-c", config], capture_output=True, text=True, check=False
    )
    assert test.returncode == 0, test.stderr
    assert "[warn]" not in test.stderr
    process = subprocess.Popen([NGINX, "-p", work, "-c", config], stderr=subprocess.PIPE)
    try:
        while True:
            assert process.poll() is None, (work / "error.log").read_text()
            with closing(http.client.HTTPConnection("127.0.0.1", port, 5)) as connection:
                try:
                    connection.connect()
                    break
                except ConnectionRefusedError:
                    continue
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def get(address: str, target: str) -> tuple[int, str | None]:
    """Return the status and the Location of a response."""
    with closing(http.client.HTTPConnection(address, timeout=PATIENCE)) as connection:
        connection.request("GET", target)
        response = connection.getresponse()
        return response.status, response.getheader("Location")


# --- which Archive a name leads to ---------------------------------------------------------------


def test_a_name_leads_to_the_archive_that_a_resolver_asks_first(app: Flask, tmp_path: Path) -> None:
    copy, deleted = State.COPY, State.DELETED
    keep(app, 1, claim(0), claim(1, copy), claim(2, deleted), claim(3, copy), hours=1)
    keep(app, 2, claim(0, copy), claim(1, deleted), hours=0)
    keep(app, 2, claim(2), claim(3, copy), hours=2)
    keep(app, 3, claim(8))  # it is excluded
    # claims of the same time: the Archive whose service has the prefix, then the earlier inclusion
    keep(app, 1, claim(4, rep="x.br/b/2001/01.01.00.00", ibip="8JMKD3MGP8W/34P"), hours=3)
    keep(app, 2, claim(4, rep="x.br/b/2001/01.01.00.00", ibip="8JMKD3MGP8W/34P"), hours=3)
    keep(app, 1, claim(5, rep="b.br/service/2001/01.01.00.00"), hours=3)
    keep(app, 2, claim(5, rep="b.br/service/2001/01.01.00.00", ibip="8JMKD3MGP8W/34R"), hours=3)
    assert export(app, tmp_path / "map").data == "13 names, 0 left out\n"
    names = names_of(tmp_path / "map")
    places = {0: A, 1: A, 2: B, 3: A}
    for number, place in places.items():
        for name in claim(number).identifiers:
            assert names[f"/{name}"] == f"http://{place}/{name}"
    for name, place in (
        ("x.br/b/2001/01.01.00.00", A),
        ("b.br/service/2001/01.01.00.00", B),
        ("8JMKD3MGP8W/34R", B),
    ):
        assert names[f"/{name}"] == f"http://{place}/{name}"


def test_an_alias_leads_to_the_item_that_has_it(app: Flask, tmp_path: Path) -> None:
    keep(app, 1, claim(0, State.ORIGINAL, "doi:10.5281/B", "https://old.example.org:8080/a"))
    export(app, tmp_path / "map")
    names = names_of(tmp_path / "map")
    target = f"http://{A}/{claim(0).rep}"
    assert names["/doi:10.5281/b"] == names["/http:/old.example.org:8080/a"] == target
    assert len(names) == 4


# --- a real server -------------------------------------------------------------------------------


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
    assert export(app, tmp_path / "map").data == "620 names, 3 left out\n"
    with nginx(tmp_path / "map", tmp_path / "nginx") as address:
        for one in claims:
            place = A if one in claims[:150] else B
            for name in one.identifiers:
                shown = random_.choice([name, name.upper(), name.lower(), name.title()])
                assert get(address, f"/{shown}") == (302, f"http://{place}/{name}")
        # modifiers, paths, queries and prefixes
        for name in claims[0].identifiers:
            for prefix in ("", "/rep", "/ibi"):
                for rest in ("!", ":(oai_dc)", "+(pt-BR):", "/a%20b/c.pdf", "!/d%0D%0AX:y?a=%20&b"):
                    target = get(address, f"{prefix}/{name}{rest}")
                    assert target == (302, f"http://{A}/{name}{rest}")
            required = f"/{name}?ibiurl.requireditemstatus=Original"
            assert get(address, required) == (302, f"http://{A}{required}")
        # aliases
        item = f"http://{A}/{with_aliases.rep}"
        for alias in ALIASES:
            assert get(address, f"/{alias}") == (302, item), alias
            # a client may encode more characters
            assert get(address, f"/{quote(alias, safe='%/')}") == (302, item), alias
        # identifiers from before the standard differ in their case
        for number, name in enumerate(legacy):
            assert get(address, f"/{name}") == (302, f"http://{B}/{claim(301 + number).rep}")
        assert get(address, "/6qtX3pFwXQZGivnJSY/GNPCH")[0] == 404
        for unknown in ("/", "/8JMKD3MGP8W/2", "/favicon.ico", "/doi:10.1/2"):
            assert get(address, unknown)[0] == 404


def test_the_file_is_replaced_when_the_new_one_is_complete(
    app: Flask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "maps" / "map"
    path.parent.mkdir()
    keep(app, 1, claim(0))
    export(app, path)
    before = names_of(path)
    keep(app, 1, *[claim(number) for number in range(1, 300)])

    def fail(*values: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(export_map, "order_claim", fail)
        assert "No space left" in export(app, path).error
    assert names_of(path) == before
    assert export(app, path).data == "600 names, 0 left out\n"
    assert len(names_of(path)) == 600
    assert list(path.parent.iterdir()) == [path]
