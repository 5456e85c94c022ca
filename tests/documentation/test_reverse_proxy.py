"""nginx and Apache, configured as the page says, pass requests on as the app needs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
from support.documentation import FILES, blocks, commands
from support.loopback import PATIENCE, free_port, serving
from werkzeug import Request, Response

pytestmark = pytest.mark.slow

PAGE = "howto/reverse-proxy.rst"
HOST = "repository.example.org"
#: A persistent URL with all kinds of characters that a proxy could change.
TARGET = "/8JMKD3MGP8W/35MMLL8!+(pt):(oai_dc)/a@b%2Fc//d%20e?x=%C3%A9&key=secret"
#: The service of the Archive of an app under a path.
SERVICE = "/8JMKD3MGP8W/4GR7C9G"
#: The modules of Apache that Debian loads without a command.
APACHE_MODULES = ("mpm_event", "authz_core", "socache_shmcb")
MODULES_FOLDER = Path("/usr/lib/apache2/modules")


@Request.application
def app(request: Request) -> Response:
    """Answer with the request as it arrived."""
    names = ("Host", "X-Forwarded-For", "X-Forwarded-Proto")
    seen = [request.environ["RAW_URI"], *(request.headers[name] for name in names)]
    return Response(json.dumps(seen), content_type="application/json")


class Proxy:
    """A running web server, with its ports for both schemes and its folder."""

    def __init__(self, folder: Path, backend: str) -> None:
        self.folder, self.backend = folder, backend
        self.ports = {"http": free_port(), "https": free_port()}
        certificate = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a"]
        keys = ["-keyout", str(folder / "privkey.pem"), "-out", str(folder / "fullchain.pem")]
        subprocess.run([*certificate, *keys], check=True, capture_output=True)

    def here(self, text: str) -> str:
        """Return a configuration of the page with the folder and the ports of this server."""
        text = re.sub(r"/etc/letsencrypt/live/[\w.]+|/var/log/nginx", str(self.folder), text)
        text = text.replace("127.0.0.1:8000", self.backend)
        text = re.sub(r"^ *listen \[::\].*\n", "", text, flags=re.MULTILINE)
        for shown, scheme in ((80, "http"), (443, "https")):
            text = text.replace(f"*:{shown}>", f"127.0.0.1:{self.ports[scheme]}>")
            text = re.sub(rf"listen {shown}\b", f"listen 127.0.0.1:{self.ports[scheme]}", text)
        return text

    def get(self, scheme: str, target: str) -> list[str]:
        """Return what the app got: raw URI, Host, X-Forwarded-For, X-Forwarded-Proto."""
        trusting = ssl._create_unverified_context()
        port = self.ports[scheme]
        connection = (
            HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            if scheme == "http"
            else HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=trusting)
        )
        with closing(connection):
            headers = {"Host": HOST, "X-Forwarded-For": "1.2.3.4", "X-Forwarded-Proto": "gopher"}
            connection.request("GET", target, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        assert answer.status == 200, body
        seen: list[str] = json.loads(body)
        return seen

    def read_log(self, lines: int) -> str:
        """Return the log. A server writes a line after it has sent the response."""
        deadline = time.monotonic() + PATIENCE
        while (text := (self.folder / "repository.log").read_text()).count("\n") < lines:
            assert time.monotonic() < deadline, text
            time.sleep(0.01)
        return text


@contextmanager
def nginx(folder: Path, backend: str, rule: str = "") -> Iterator[Proxy]:
    """Run nginx with the files of the page, and perhaps one more rule in each server."""
    proxy = Proxy(folder, backend)
    # a user who is not root cannot write to the folders of the system
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    text = proxy.here(FILES["nginx.conf"]).replace("http {\n", f"http {{\n{folders}", 1)
    text = text.replace("server {\n", f"server {{\n{rule}")
    (folder / "nginx.conf").write_text(text)
    (folder / "proxy_headers.conf").write_text(FILES["proxy_headers.conf"])
    settings = ["-p", str(folder), "-c", "nginx.conf", "-e", "error.log", "-g", "pid nginx.pid;"]
    yield from running(proxy, ["nginx", *settings], ["nginx", *settings, "-s", "stop"])


@contextmanager
def apache(folder: Path, backend: str, rule: str = "") -> Iterator[Proxy]:
    """Run Apache with the files of the page, and perhaps one more rule before the last line."""
    proxy = Proxy(folder, backend)
    [enabled] = [line for line in commands(PAGE) if "a2enmod" in line]
    modules = [*APACHE_MODULES, *enabled.split()[2:]]
    lines = [f"LoadModule {name}_module {MODULES_FOLDER}/mod_{name}.so" for name in modules]
    lines += [f"Listen 127.0.0.1:{port}" for port in proxy.ports.values()]
    lines += [f"ServerRoot {folder}", f"DefaultRuntimeDir {folder}", f"PidFile {folder}/apache.pid"]
    lines += [f"ErrorLog {folder}/error.log", "ServerName localhost"]
    # for a test that root runs
    lines += ["User nobody", "Group nogroup"]
    (folder / "apache.conf").write_text("\n".join([*lines, proxy.here(FILES["repository.conf"])]))
    (folder / "repository-proxy.conf").write_text(
        proxy.here(FILES["repository-proxy.conf"].replace("ProxyPass /", f"{rule}ProxyPass /"))
    )
    start = ["apache2", "-f", str(folder / "apache.conf")]
    yield from running(proxy, [*start, "-k", "start"], [*start, "-k", "stop"])


def running(proxy: Proxy, start: list[str], stop: list[str]) -> Iterator[Proxy]:
    """Yield the server between two commands. It accepts connections when the first one returns."""
    variables = {**os.environ, "APACHE_LOG_DIR": str(proxy.folder)}
    with (proxy.folder / "output").open("w+") as output:
        done = subprocess.run(start, env=variables, stdout=output, stderr=output, check=False)
    assert done.returncode == 0, (proxy.folder / "output").read_text()
    try:
        yield proxy
    finally:
        subprocess.run(stop, env=variables, check=True, capture_output=True)


SERVERS = [
    pytest.param(
        run,
        language,
        marks=pytest.mark.skipif(
            "CI" not in os.environ
            and (shutil.which(program) is None or shutil.which("openssl") is None),
            reason=f"there is no {program}, or no openssl",
        ),
        id=program,
    )
    for run, program, language in ((nginx, "nginx", "nginx"), (apache, "apache2", "apache"))
]
each_server = pytest.mark.parametrize(("run", "language"), SERVERS)


@each_server
def test_a_proxy_passes_urls_host_and_address_on_and_logs_no_query(
    run: Callable[..., Any], language: str, tmp_path: Path
) -> None:
    with serving(app) as backend, run(tmp_path, backend) as proxy:
        for scheme in proxy.ports:
            # the headers of the user are replaced
            assert proxy.get(scheme, TARGET) == [TARGET, HOST, "127.0.0.1", scheme]
        log = proxy.read_log(lines=2)
    assert log.count("GET /8JMKD3MGP8W/35MMLL8!") == 2
    assert "secret" not in log


@each_server
def test_one_rule_routes_the_service_to_an_app_under_a_path(
    run: Callable[..., Any], language: str, tmp_path: Path
) -> None:
    *_, rule = [block.text for block in blocks(PAGE) if block.language == language]
    with serving(app) as backend, run(tmp_path, backend, rule=rule) as proxy:
        target = f"{SERVICE}?servicesubject=urlRequest&x=%20"
        assert proxy.get("https", target)[0] == f"/repository{target}"
        assert proxy.get("https", f"/repository{TARGET}")[0] == f"/repository{TARGET}"
