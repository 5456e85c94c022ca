"""The Dockerfile and compose.yaml, executed step by step without a container engine."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from sqlalchemy import make_url
from support.commands import ROOT
from support.documentation import copy_of_the_clone, need_package_index
from support.loopback import PATIENCE, free_port

#: The instructions of the Dockerfile.
STEPS = [
    tuple(line.split(" ", 1))
    for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
VALUES = {
    "REPOSITORY_HOST": "repository.example.org",
    "RESOLVER_HOST": "resolver.example.org",
    "PUBLIC_IP": "203.0.113.7",
    "SECRET_KEY": "only for the test",
    "DATABASE_PASSWORD": "secret",
    "REGISTRATION_KEY": "1234567890",
}


def compose(values: dict[str, str] = VALUES) -> dict[str, Any]:
    """Return compose.yaml with the values of variables, as Compose reads it."""
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    text = re.sub(r"(?<!\$)\$\{(\w+)(?::\?)?\}", lambda found: values[found[1]], text)
    found: dict[str, Any] = yaml.safe_load(text.replace("$$", "$"))
    return found


def test_both_files_have_at_most_60_lines_and_no_process_runs_as_root() -> None:
    files = [(ROOT / name).read_text("utf-8") for name in ("Dockerfile", "compose.yaml")]
    assert sum(text.count("\n") for text in files) <= 60
    names = [name for name, _ in STEPS]
    assert STEPS[names.index("USER")] == ("USER", "repository")
    assert names.index("USER") < names.index("CMD")
    services = compose()["services"]
    assert set(services) == {"database", "archive", "resolver", "nginx"}
    for name, service in services.items():
        is_ours = service.get("build") == "."
        assert is_ours or service.get("user") == "postgres" or "unprivileged" in service["image"]
        assert "healthcheck" in service or ("HEALTHCHECK" in names and is_ours), name


class Containers:
    """The services of compose.yaml as processes on loopback.

    :param folder: the folder of the image.
    :param uri: the database.
    """

    def __init__(self, folder: Path, uri: str) -> None:
        self.folder, self.uri = folder, uri
        self.ports = {name: free_port() for name in ("archive", "resolver", "nginx")}
        self.home = folder / "srv"
        self.variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FLASK_")},
            "PATH": f"{folder}/.venv/bin{os.pathsep}{os.environ['PATH']}",
            "VIRTUAL_ENV": str(folder / ".venv"),
        }
        self.variables.pop("PYTHONPATH", None)
        self.services = compose()["services"]
        self.command = self.health = ""

    def here(self, text: str, service: str = "") -> str:
        """Return a text with the ports and the folder of this run."""
        url = make_url(self.uri)
        database = url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
        text = text.replace("postgresql+psycopg://repository:secret@database/repository", database)
        for name, port in self.ports.items():
            text = text.replace(f"//{name}:8000", f"//127.0.0.1:{port}")
        if service in self.ports:
            text = re.sub(
                r"(0\.0\.0\.0|127\.0\.0\.1):8000", f"127.0.0.1:{self.ports[service]}", text
            )
        return text.replace("/tmp/flask_ibi_archive", f"{self.folder}/flask_ibi_archive")

    def run(self, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the working directory of the image."""
        return subprocess.run(
            ["sh", "-c", command],
            cwd=self.home,
            env={**self.variables, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def build(self) -> None:
        """Carry out the instructions of the Dockerfile."""
        self.home.mkdir()
        subprocess.run([sys.executable, "-m", "venv", self.folder / ".venv"], check=True)
        copy = copy_of_the_clone(self.folder)
        for name, value in STEPS:
            if name == "RUN" and "useradd" not in value:
                # the user of the image is the user of the test
                done = self.run(self.here(value.partition(" && chown")[0]))
                assert done.returncode == 0, done.stderr
            elif name == "COPY" and value != ". /tmp/flask_ibi_archive":
                source, target = value.split()
                shutil.copytree(copy / source, self.home / target)
            elif name == "ENV":
                self.variables |= dict(pair.split("=") for pair in shlex.split(value))
            elif name == "HEALTHCHECK":
                self.health = value.removeprefix("CMD ")
            elif name == "CMD":
                self.command = value

    def settings(self, service: str) -> dict[str, str]:
        """Return the environment of a service."""
        values = self.services[service]["environment"].items()
        return {name: self.here(value) for name, value in values}

    @contextmanager
    def serving(self, service: str) -> Iterator[None]:
        """Run a service of the image until the end of the with block, when it is healthy."""
        command = self.services[service].get("command", self.command)
        health = self.services[service].get("healthcheck", {"test": self.health})["test"]
        settings = self.settings(service)
        with (self.folder / f"{service}.log").open("w+") as log:
            process = subprocess.Popen(
                ["sh", "-c", f"exec {self.here(command, service)}"]
                if command.startswith("sh ")
                else ["sh", "-c", self.here(command, service)],
                cwd=self.home,
                env={**self.variables, **settings},
                stdout=log,
                stderr=log,
            )
            try:
                end = time.monotonic() + PATIENCE
                while self.run(self.here(health, service)).returncode:
                    text = (self.folder / f"{service}.log").read_text()
                    assert process.poll() is None, text
                    assert time.monotonic() < end, text
                    time.sleep(0.1)
                yield
            finally:
                process.terminate()
                process.wait(PATIENCE)

    @contextmanager
    def nginx(self) -> Iterator[None]:
        """Run nginx with its configuration until the end of the with block."""
        address = f"127.0.0.1:{self.ports['nginx']}"
        content = self.here(compose()["configs"]["nginx"]["content"])
        content = content.replace("listen 80", f"listen {address}")
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        folders = "".join(f"{kind}_temp_path {self.folder}/{kind};\n" for kind in kinds)
        text = f"events {{}}\nhttp {{\naccess_log off;\n{folders}{content}}}\n"
        (self.folder / "nginx.conf").write_text(text)
        start = ["nginx", "-p", str(self.folder), "-c", "nginx.conf", "-e", "nginx.log"]
        start += ["-g", "pid nginx.pid;"]
        subprocess.run(start, check=True)
        try:
            [health] = re.findall(
                r"http://127\.0\.0\.1\S+", str(self.services["nginx"]["healthcheck"]["test"])
            )
            path = health.removeprefix("http://127.0.0.1")
            assert requests.get(f"http://{address}{path}", timeout=PATIENCE).ok
            yield
        finally:
            subprocess.run([*start, "-s", "stop"], check=True)


@pytest.mark.slow
@pytest.mark.skipif(
    "CI" not in os.environ and not (shutil.which("nginx") and shutil.which("pg_isready")),
    reason="there is no nginx, or no PostgreSQL",
)
@pytest.mark.only_on("postgresql")
@pytest.mark.no_tables
def test_the_services_of_the_files_work_together(uri: str, tmp_path: Path) -> None:
    need_package_index(tmp_path)
    containers = Containers(tmp_path, uri)
    containers.build()
    url = make_url(uri)
    ready = str(containers.services["database"]["healthcheck"]["test"])
    ready = ready.replace("127.0.0.1", str(url.host)) + f" --port={url.port or 5432}"
    assert containers.run(ready).returncode == 0
    with ExitStack() as stack:
        for enter in (
            lambda: containers.serving("archive"),
            lambda: containers.serving("resolver"),
            containers.nginx,
        ):
            stack.enter_context(enter())
        settings = containers.settings("archive")
        (tmp_path / "rain.txt").write_text("It rained.")
        added = containers.run(f"flask ibi add {tmp_path}/rain.txt --title Rain", **settings)
        assert added.returncode == 0, added.stderr
        rep, ibip = added.stdout.split()
        assert rep.startswith("example.org/repository/")

        def get(host: str, path: str) -> requests.Response:
            return requests.get(
                f"http://127.0.0.1:{containers.ports['nginx']}/{path}",
                headers={"Host": VALUES[host], "Accept": "text/html"},
                allow_redirects=False,
                timeout=PATIENCE,
            )

        assert "Rain" in get("REPOSITORY_HOST", f"col/{rep}/").text
        # each host has its own service; no Archive is registered yet
        assert get("REPOSITORY_HOST", ibip).headers["Location"].endswith("/doc/rain.txt")
        assert get("RESOLVER_HOST", "ibi-resolver/health").status_code == 200
        assert get("RESOLVER_HOST", ibip).status_code == 404
