"""A complete system on one computer: two repositories and a resolver, see docs/try-the-example.rst.

::

    python -m example_app

The first repository has publications and two users. Each repository also contains some of the items
of the resolution report. To resolve some persistent URLs, the resolver needs answers of both.
"""

from __future__ import annotations

import argparse
import json
import secrets
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from click import ClickException
from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

from example_app import create_app, create_resolver
from example_app.seed import PASSWORD, seed

RECORDS = Path(__file__).parent / "records"
#: The IBI of the resolver's service, as in the report.
RESOLVER_SERVICE = "J8LNKB5R7W/3FUQHC5"
#: The IBIs of the Archives' services.
SERVICES = ("sid.inpe.br/mtc-m18@80/2008/03.17.15.17", "sid.inpe.br/mtc-m19@80/2009/08.21.17.02")
#: The names of the Archives.
NAMES = ("Vale University Repository", "Serra University Repository")
#: The beginnings of the repository names of the items in the second Archive.
IN_SECOND = (
    "sid.inpe.br/mtc-m18/2012/",
    "sid.inpe.br/mtc-m18@80/2009/08.25",
    "sid.inpe.br/mtc-m19/",
)
#: The address in the records, which the address of the Archive replaces.
RECORDS_ADDRESS = "localhost:5000"

#: The files with the settings of the resolver and of the Archives.
SETTINGS = ("resolver.sh", "archive1.sh", "archive2.sh")

#: The modifier of a persistent URL, and a description of the result.
EXAMPLES = (
    ("", "the item itself"),
    ("!", "its last edition, in the other Archive"),
    ("!:(oai_dc)", "the metadata of its last edition, in Dublin Core"),
)


class Example:
    """The three apps of the system, each with its own database.

    :param folder: the folder for all databases and files.
    :param port: the port of the resolver; the Archives use the next two.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder.resolve()
        self.resolver_address = f"localhost:{port}"
        self.addresses = tuple(f"localhost:{port + number}" for number in (1, 2))
        resolver = {
            "IBI_RESOLVER_SERVICE_IBI": RESOLVER_SERVICE,
            "IBI_RESOLVER_DATABASE_URI": f"sqlite:///{self.folder}/resolver.sqlite",
            # by default, a resolver sends no requests to private addresses
            "IBI_INNER_HOSTS": "localhost",
            "IBI_RESOLVER_FOLLOW": True,
            "IBI_RESOLVER_REGISTRY": True,
            "IBI_MINT_HOST": "registry.example.org",
        }
        self.resolver = create_resolver(resolver)
        archives = [
            self._settings(number, service, address)
            for number, (service, address) in enumerate(
                zip(SERVICES, self.addresses, strict=True), 1
            )
        ]
        self.archives = tuple(map(create_app, archives))
        #: The settings of each app, by the name of the file that :meth:`fill` writes.
        self.settings = dict(zip(SETTINGS, (resolver, *archives), strict=True))

    def _settings(self, number: int, service: str, address: str) -> dict[str, Any]:
        home = self.folder / f"archive{number}"
        return {
            "IBI_ARCHIVE_ADDRESS": address,
            "IBI_ARCHIVE_NAME": NAMES[number - 1],
            "IBI_ARCHIVE_SERVICE_IBI": service,
            "IBI_DATABASE_URI": f"sqlite:///{home}/repository.sqlite",
            "UPLOAD_FOLDER": str(home / "uploads"),
            "SESSION_COOKIE_NAME": f"session{number}",
            "IBI_FOLDER": str(home),
            "IBI_PERSISTENT_URL_BASE": f"http://{self.resolver_address}",
            "IBI_RESOLVER_URL": f"http://{self.resolver_address}/{RESOLVER_SERVICE}",
            "IBI_REGISTRATION_KEY": self._key(home),
        }

    @staticmethod
    def _key(home: Path) -> str:
        """Return the registration key of an Archive; make a new key the first time."""
        path = home / "registration.key"
        if not path.exists():
            home.mkdir(parents=True, exist_ok=True)
            path.write_text(str(secrets.randbelow(9 * 10**19) + 10**19))
            path.chmod(0o600)
        return path.read_text().strip()

    def fill(self) -> None:
        """Create the tables of all apps, and add the items, the users and the publications.

        Also write the settings of each app to a file for the shell, so that commands find them.
        """
        for name, settings in self.settings.items():
            values = ((key, shlex.quote(as_text(value))) for key, value in settings.items())
            path = self.folder / name
            path.touch(0o600)  # one of the settings is a key
            path.write_text("".join(f"export FLASK_{key}={value}\n" for key, value in values))
        run(self.resolver, "ibi-resolver init")
        print("The resolver has its database.")
        for number, app in enumerate(self.archives, 1):
            run(app, "db upgrade")
            run(app, "ibi init")
            records = self.folder / f"archive{number}/items.jsonl"
            lines = [json.dumps(record) for record in self._records(number)]
            records.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            options = f"--on-conflict update --files-folder {shlex.quote(str(RECORDS))}"
            run(app, f"ibi import {options} {shlex.quote(str(records))}")
            print(f"{NAMES[number - 1]} has {len(lines)} items of the resolution report.")
        with self.archives[0].app_context():
            seed()
        print(f"{NAMES[0]} also has some publications, and the users librarian and ana.")

    def _records(self, number: int) -> Iterator[dict[str, Any]]:
        """Yield the records of an Archive."""
        text = (RECORDS / "items.jsonl").read_text(encoding="utf-8")
        for line in text.replace(RECORDS_ADDRESS, self.addresses[number - 1]).splitlines():
            record: dict[str, Any] = json.loads(line)
            if (2 if record["rep"].startswith(IN_SECOND) else 1) == number:
                yield record

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve the three apps until the end of the with block."""
        with ExitStack() as stack:
            for app, address in zip(
                (self.resolver, *self.archives),
                (self.resolver_address, *self.addresses),
                strict=True,
            ):
                stack.enter_context(serve(app, int(address.partition(":")[2])))
            yield

    def register(self) -> None:
        """Register the Archives with the resolver.

        All servers must be running: the resolver sends a request to each Archive.
        """
        for number, (app, service) in enumerate(zip(self.archives, SERVICES, strict=True), 1):
            key_file = shlex.quote(str(self.folder / f"archive{number}/registration.key"))
            command = f"ibi-resolver register {service} --key-file {key_file}"
            run(self.resolver, command)
            # --moved: the port may have changed since the last run
            print(f"{NAMES[number - 1]}: {run(app, 'ibi register-archive --moved')}")

    def explain(self) -> None:
        """Print what to open and to run."""
        first, second = (f"http://{address}/" for address in self.addresses)
        print("\nThe system is running. Open in a browser:")
        print(f"  {first}  the repository; log in as librarian or ana, password {PASSWORD}")
        print(f"  {second}  another repository")
        print(f"  http://{self.resolver_address}/  the resolver")
        print(f"  http://{self.resolver_address}/ibi/registry  the resolver's document registry")
        print("\nIn another terminal:")
        for modifier, description in EXAMPLES:
            url = f"http://{self.resolver_address}/8JMKD3MGP8W/35MMLL8{modifier}"
            print(f"  # {description}:\n  curl -i '{url}'")
        files = [shlex.quote(str(self.folder / name)) for name in SETTINGS]
        print("\nTo list the items of the repository:")
        print(f"  . {files[1]}")
        print("  .venv/bin/flask --app example_app ibi list")
        print("\nTo see the messages between the resolver and the Archives:")
        print(f"  . {files[0]}")
        flask = ".venv/bin/flask --app example_app:create_resolver"
        print(f"  {flask} ibi-resolver resolve --trace '8JMKD3MGP8W/35MMLL8!:(oai_dc)'\n")


def as_text(value: object) -> str:
    """Return the value of a setting as a text that an app reads from the environment."""
    return value if isinstance(value, str) else json.dumps(value)


def run(app: Flask, command: str) -> str:
    """Run a Flask command, and return its output.

    :raises SystemExit: if the command fails; contains its output.
    """
    result = app.test_cli_runner().invoke(args=shlex.split(command))
    if result.exit_code:
        raise SystemExit(result.output.strip() or str(result.exception))
    return result.output.strip()


@contextmanager
def serve(app: Flask, port: int) -> Iterator[None]:
    """Serve an app to clients on this computer until the end of the with block."""
    server = make_server("127.0.0.1", port, app, threaded=True, request_handler=QuietHandler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class QuietHandler(WSGIRequestHandler):
    """Handles requests without a log, because three servers use the same terminal."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""


def main(arguments: Sequence[str] | None = None, stop: Event | None = None) -> None:
    """Set up and serve the system until Ctrl-C, and print commands to try.

    :param stop: an event that stops the system, like Ctrl-C.
    """
    parser = argparse.ArgumentParser(
        prog="python -m example_app",
        description="Two repositories and a resolver on this computer.",
        epilog="Example: python -m example_app --port 8000",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=5000,
        help="port of the resolver (default: 5000, which a Mac uses itself); the others use the "
        "next two",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("instance/system"),
        help="folder for databases and files (default: instance/system)",
    )
    chosen = parser.parse_args(arguments)
    if not 0 < chosen.port < 65534:
        parser.error(f"argument --port: {chosen.port} is not from 1 to 65533")
    try:
        example = Example(chosen.folder, chosen.port)
    except (ClickException, OSError) as error:
        raise SystemExit(f"Error: {error}") from None
    # open the ports before anything is written: a port may be in use
    with example.serving():
        example.fill()
        example.register()
        example.explain()
        print("Press Ctrl-C to stop.", flush=True)
        try:
            (stop or Event()).wait()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
