"""The static map: a real nginx leads persistent URLs to the Archives without any resolver."""

from __future__ import annotations

import http.client
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
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
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.old_claims.entry_check import MAX_NAMES
from flask_ibi_archive.resolver.old_claims.kept_logs import KeptLogs

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
    assert export(app, tmp_path / "map").data == "14 names, 0 left out\n"
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


@pytest.mark.slow
@needs_nginx
def test_nginx_reads_long_names(app: Flask, tmp_path: Path) -> None:
    long = "hdl:20.500.12345/" + "x" * 1800
    keep(app, 1, claim(0, State.ORIGINAL, long))
    assert export(app, tmp_path / "map").data == "3 names, 0 left out\n"
    with nginx(tmp_path / "map", tmp_path / "nginx") as address:
        assert get(address, f"/{long}") == (302, f"http://{A}/{claim(0).rep}")


def test_the_file_is_replaced_when_the_new_one_is_complete(app: Flask, tmp_path: Path) -> None:
    path = tmp_path / "maps" / "map"
    path.parent.mkdir()
    keep(app, 1, claim(0))
    export(app, path)
    before = names_of(path)
    keep(app, 1, *[claim(number) for number in range(300)])
    bundle = resolver_of(app).config.claims_folder / "logs/1/1/tile/entries/000.gz"
    content = bundle.read_bytes()
    bundle.write_bytes(content[:100])
    assert "is damaged" in export(app, path).error
    assert names_of(path) == before
    bundle.write_bytes(content)
    assert export(app, path).data == "600 names, 0 left out\n"
    assert len(names_of(path)) == 600
    assert list(path.parent.iterdir()) == [path]
