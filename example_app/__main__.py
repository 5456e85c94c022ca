"""A complete system on one computer: two Archives and a resolver that includes them.

::

    python -m example_app

The items of the resolution report are divided between the two Archives, so that some persistent
URLs start in one Archive and end in the other.
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

RECORDS = Path(__file__).parent / "records"
#: The service of the resolver, as in the report.
RESOLVER_SERVICE = "J8LNKB5R7W/3FUQHC5"
#: The services of the Archives; items with the prefixes below are in the second one.
SERVICES = ("sid.inpe.br/mtc-m18@80/2008/03.17.15.17", "sid.inpe.br/mtc-m19@80/2009/08.21.17.02")
IN_SECOND = (
    "sid.inpe.br/mtc-m18/2012/",
    "sid.inpe.br/mtc-m18@80/2009/08.25",
    "sid.inpe.br/mtc-m19/",
)
#: The address in the records, to be replaced by that of their Archive.
WRITTEN_FOR = "localhost:5000"

EXAMPLES = (
    ("", "the item itself"),
    ("!", "its last edition, in the other Archive"),
    ("!:(oai_dc)", "the metadata of its last edition, in Dublin Core ([R] 8.2)"),
)


class Example:
    """The three apps, each with its database in a folder.

    :param folder: the folder for databases and files.
    :param port: the port of the resolver; the Archives use the next two.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder.resolve()
        self.resolver_address = f"localhost:{port}"
        self.addresses = tuple(f"localhost:{port + number}" for number in (1, 2))
        self.resolver = create_resolver(
            {
                "IBI_RESOLVER_SERVICE_IBI": RESOLVER_SERVICE,
                "IBI_RESOLVER_DATABASE_URI": f"sqlite:///{self.folder}/resolver.sqlite",
                # the Archives are on this computer
                "IBI_RESOLVER_INNER_HOSTS": "localhost",
            }
        )
        self.archives = tuple(
            create_app(self._settings(number, service, address))
            for number, (service, address) in enumerate(
                zip(SERVICES, self.addresses, strict=True), 1
            )
        )

    def _settings(self, number: int, service: str, address: str) -> dict[str, Any]:
        home = self.folder / f"archive{number}"
        return {
            "IBI_ARCHIVE_ADDRESS": address,
            "IBI_ARCHIVE_SERVICE_IBI": service,
            "IBI_DATABASE_URI": f"sqlite:///{home}/archive.sqlite",
            "IBI_FILES_FOLDER": str(home / "files"),
            "IBI_SPOOL_FOLDER": str(home / "spool"),
            "IBI_PERSISTENT_URL_BASE": f"http://{self.resolver_address}",
            "IBI_RESOLVER_URL": f"http://{self.resolver_address}/{RESOLVER_SERVICE}",
            "IBI_REGISTRATION_KEY": self._key(home),
        }

    @staticmethod
    def _key(home: Path) -> str:
        """Return the registration key of an Archive, a new one the first time."""
        path = home / "registration.key"
        if not path.exists():
            home.mkdir(parents=True, exist_ok=True)
            path.write_text(str(secrets.randbelow(9 * 10**19) + 10**19))
            path.chmod(0o600)
        return path.read_text().strip()

    def fill(self) -> None:
        """Create the tables and import the items, with the current addresses."""
        run(self.resolver, "ibi-resolver init")
        for number, app in enumerate(self.archives, 1):
            run(app, "ibi init")
            records = self.folder / f"archive{number}/items.jsonl"
            lines = [json.dumps(record) for record in self._records(number)]
            records.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            run(app, f"ibi import --on-conflict update {shlex.quote(str(records))}")

    def _records(self, number: int) -> Iterator[dict[str, Any]]:
        """Yield the records of an Archive."""
        text = (RECORDS / "items.jsonl").read_text(encoding="utf-8")
        for line in text.replace(WRITTEN_FOR, self.addresses[number - 1]).splitlines():
            record: dict[str, Any] = json.loads(line)
            if (2 if record["rep"].startswith(IN_SECOND) else 1) != number:
                continue
            for file in record["files"]:
                if "source" in file:
                    file["source"] = str(RECORDS / file["source"])
            yield record

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve the three apps."""
        with ExitStack() as stack:
            for app, address in zip(
                (self.resolver, *self.archives),
                (self.resolver_address, *self.addresses),
                strict=True,
            ):
                stack.enter_context(serve(app, int(address.partition(":")[2])))
            yield

    def register(self) -> None:
        """Register the Archives and have the resolver include them, by the usual requests.

        All servers must be running: the resolver calls each Archive back.
        """
        for number, (app, service) in enumerate(zip(self.archives, SERVICES, strict=True), 1):
            key_file = shlex.quote(str(self.folder / f"archive{number}/registration.key"))
            run(self.resolver, f"ibi-resolver register {service} --key-file {key_file}")
            # the port may differ from that of the last run
            run(app, "ibi register-archive --moved")


def run(app: Flask, command: str) -> None:
    """Run a command of Flask and print it with its output, as on a terminal.

    :raises SystemExit: if it fails, with its output.
    """
    print(f"$ flask {command}")
    result = app.test_cli_runner().invoke(args=shlex.split(command))
    if result.exit_code:
        raise SystemExit(result.output.strip() or str(result.exception))
    if result.output:
        print(result.output.rstrip())


@contextmanager
def serve(app: Flask, port: int) -> Iterator[None]:
    """Serve an app, for clients on this computer only."""
    server = make_server("127.0.0.1", port, app, threaded=True, request_handler=Quiet)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Quiet(WSGIRequestHandler):
    """Handles requests without a log, since three servers share the terminal."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Write nothing."""


def main(arguments: Sequence[str] | None = None, stop: Event | None = None) -> None:
    """Set up and serve the system, and print commands to try, until Ctrl-C.

    :param stop: an event that stops the system as well.
    """
    parser = argparse.ArgumentParser(
        prog="python -m example_app",
        description="Two Archives and a resolver on this computer.",
        epilog="Example: python -m example_app --port 8000",
    )
    parser.add_argument(
        "--port", type=int, default=5000, help="port of the resolver; the Archives use the next two"
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
    # open the ports first: if one is in use, nothing is written
    with example.serving():
        example.fill()
        example.register()
        print("\nThe system is running. Try in another terminal:")
        for modifier, leads_to in EXAMPLES:
            url = f"http://{example.resolver_address}/8JMKD3MGP8W/35MMLL8{modifier}"
            print(f"  curl -i '{url}'".ljust(70), f"# {leads_to}")
        print("\nTo see the messages between the resolver and the Archives:")
        database = f"FLASK_IBI_RESOLVER_DATABASE_URI=sqlite:///{example.folder}/resolver.sqlite"
        inner_hosts = "FLASK_IBI_RESOLVER_INNER_HOSTS=localhost"
        print(f"  export FLASK_APP=example_app:create_resolver {database} {inner_hosts}")
        print("  flask ibi-resolver resolve --trace '8JMKD3MGP8W/35MMLL8!:(oai_dc)'")
        print("  flask ibi-resolver list")
        print(f"\nPages: http://{example.resolver_address}/ and of each Archive", end=" ")
        print(" ".join(f"http://{address}/" for address in example.addresses))
        print("Press Ctrl-C to stop.", flush=True)
        try:
            (stop or Event()).wait()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
