"""The guide "Leave DSpace, EPrints or OJS behind", executed with an export of each system.

The exports in ``tests/data/leaving`` are written by the formats of the systems: several authors and
files, embargoes, restricted files, versions, withdrawn items, Handles and DOIs.
"""

from __future__ import annotations

import csv
import json
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from flask import Flask, request
from lxml import etree
from sqlalchemy import create_engine, text
from support.archives import archive_of
from support.commands import ROOT, command
from support.databases import new_database
from support.documentation import DOCS, FILES, Shell, commands
from support.loopback import free_port, serving
from support.metadata import load_schema
from support.vectors import load

PAGE = "howto/leave-another-system.rst"
SCRIPTS = DOCS / "howto/leaving"
EXPORTS = ROOT / "tests/data/leaving"
OLD_HOSTS = ["old.example.org", "eprints.example.org", "journal.example.org"]
JOURNAL = "http://journal.example.org/index.php/rain"
#: The conversions of the page with their arguments, except those by OAI-PMH.
CONVERSIONS = {
    name: arguments
    for one in commands(PAGE)
    for name, arguments in re.findall(r"^python3 (dspace|eprints|ojs)\.py (.*)$", one)
}

#: For the name of each item: title, authors, language, who may read, and the files with their first
#: word; old identifiers and addresses with the item that each leads to; what is harvested from each
#: system; and for each file in a database of DSpace: its bundle, its policies (group, action, first
#: day, last day), and the answer.
EXPECTED = load("leaving.json")


class Move:
    """A folder with the exports, in which the scripts are run for the Archive of an app."""

    def __init__(self, app: Flask, folder: Path) -> None:
        self.app, self.folder = app, folder

    def run(self, name: str, *arguments: str) -> str:
        """Run a script, and return the exit status that it states."""
        argv = [f"{name}.py", *arguments]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", argv)
            try:
                runpy.run_path(str(SCRIPTS / argv[0]), run_name="__main__")
            except SystemExit as end:
                return str(end.code)
        return "0"

    def convert(self) -> dict[str, dict[str, Any]]:
        """Convert all exports, and return the records by the names of the items."""
        for name, arguments in CONVERSIONS.items():
            assert self.run(name, *arguments.split()) == "0"
        return {one["key"]: one for name in CONVERSIONS for one in self.records(name)}

    def records(self, name: str) -> list[dict[str, Any]]:
        """Return the records that a script has written."""
        lines = (self.folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def addresses(self, *names: str) -> list[list[str]]:
        """Return the rows of tables of addresses."""
        rows: list[list[str]] = []
        for name in names:
            with (self.folder / f"{name}.csv").open(encoding="utf-8", newline="") as table:
                rows += csv.reader(table)
        return rows

    def import_all(self, *options: str) -> None:
        """Import what the scripts have written."""
        for name in CONVERSIONS:
            assert command(self.app, "import", self.folder / f"{name}.jsonl", *options).status == 0


@pytest.fixture
def move(
    new_app: Callable[..., Flask], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Move]:
    """The exports, and an Archive that answers requests for the old hosts."""
    folder = tmp_path / "move"
    shutil.copytree(EXPORTS, folder)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(SCRIPTS))
    app = new_app(IBI_FORMER_HOSTS=OLD_HOSTS)
    archive_of(app).init()

    def mint(words: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert words[:3] == ["flask", "ibi", "mint"]
        return subprocess.CompletedProcess(words, 0, command(app, *words[2:]).data)

    monkeypatch.setattr(subprocess, "run", mint)
    yield Move(app, folder)
    sys.modules.pop("leaving", None)


def describe(record: dict[str, Any], folder: Path) -> list[Any]:
    """Return the facts of a record that the JSON file states."""
    dc = record["metadata"]["dc"]
    title = dc["title"][0]
    rules = ("embargo", "access", "state", "timestamp", "tombstone")
    return [
        title if isinstance(title, str) else title["value"],
        dc["creator"],
        record.get("language"),
        {name: record[name] for name in rules if name in record},
        {
            file["path"]: (folder / file["source"]).read_text(encoding="utf-8").split()[0]
            for file in record.get("files", [])
        },
    ]


def test_the_conversions_write_these_records(move: Move) -> None:
    records = move.convert()
    assert {name: describe(one, move.folder) for name, one in records.items()} == EXPECTED[
        "records"
    ]
    rain = records["hdl:20.500.12345/12"]["metadata"]["dc"]
    assert rain["subject"][1] == {"value": "Precipitação", "lang": "pt-BR"}
    assert rain["description"][0] == {"value": "Choveu em 12 dias de março.", "lang": "pt-BR"}
    assert rain["date"] == ["2014-11"]
    assert [one["value"] for one in rain["contributor"]] == [
        "Souza, Davi",
        "Universidade de São Paulo",
    ]
    assert "ana@example.org" not in json.dumps(rain)
    ducks = records["http://eprints.example.org/12/"]["metadata"]["dc"]
    assert ducks["subject"] == ["ducks", "Enten", "men"]
    article = records[f"{JOURNAL}/article/view/12"]["metadata"]["dc"]
    assert article["description"] == [{"value": "Choveu em São Paulo & no Rio.", "lang": "pt-BR"}]
    assert article["source"] == ["volume 44, number 1, year 2020"]


@pytest.mark.slow
def test_each_old_link_leads_to_its_item(move: Move, capsys: pytest.CaptureFixture[str]) -> None:
    records = move.convert()
    move.import_all()
    client = move.app.test_client()
    for old, name in EXPECTED["old_links"]:
        address = old if "://" in old else f"http://localhost/{old}"
        answer = client.get(address, headers={"Accept": "text/html"})
        ibi = records[name]["ibip"]
        if records[name].get("state") == "Deleted":
            assert (answer.status_code, ibi in answer.text) == (410, True), old
        else:
            item = client.get(f"http://localhost/{ibi}")
            assert (answer.status_code, item.status_code) == (302, 302), old
            assert urlsplit(answer.location).path == urlsplit(item.location).path, old
    with serving(move.app) as server:
        assert move.run("check_links", server, *(f"{name}.csv" for name in CONVERSIONS)) == "False"
    assert capsys.readouterr().out.endswith(", wrong 0\n")
    Path("unknown.csv").write_text(f"http://old.example.org/handle/1/99,{records[name]['ibip']}\n")
    with serving(move.app) as server:
        assert move.run("check_links", server, "unknown.csv") == "True"
    assert "handle/1/99 leads to /handle/1/99 (status 404)" in capsys.readouterr().out


def withdraw(folder: Path, number: str) -> None:
    """Change the exports of EPrints as if an eprint had been withdrawn in the meantime."""
    archive, deletion = folder / "archive.xml", folder / "deletion.xml"
    text = archive.read_text(encoding="utf-8")
    [eprint] = re.findall(rf"  <eprint id=\S+/{number}\".*?</eprint>\n", text, re.DOTALL)
    archive.write_text(text.replace(eprint, ""), encoding="utf-8")
    eprint = re.sub("<documents>.*</documents>", "", eprint, flags=re.DOTALL)
    eprint = eprint.replace("<eprint_status>archive<", "<eprint_status>deletion<")
    other = deletion.read_text(encoding="utf-8")
    deletion.write_text(other.replace("</eprints>", f"{eprint}</eprints>"), encoding="utf-8")


def test_a_conversion_can_be_repeated(move: Move) -> None:
    first = move.convert()
    move.import_all()
    later = move.folder / "saf/theses/9"
    shutil.copytree(move.folder / "saf/theses/2", later)
    (later / "handle").write_text("20.500.12345/19\n")
    (later / "contents").write_text("")
    with Path("items.csv").open("a") as table:
        table.write(f"20.500.12345/19,{uuid4()},,,,,\n")
    withdraw(move.folder, "14")
    second = move.convert()
    assert {name: second[name]["ibip"] for name in first} == {
        name: one["ibip"] for name, one in first.items()
    }
    [added] = second.keys() - first.keys()
    assert added == "hdl:20.500.12345/19"
    move.import_all("--on-conflict", "update")
    assert len({one["ibip"] for one in second.values()}) == len(second) == len(first) + 1
    exported = [json.loads(line) for line in command(move.app, "export").lines]
    assert {one["key"]: one["ibip"] for one in exported} == {
        name: one["ibip"] for name, one in second.items()
    }
    deleted = {one["key"] for one in exported if one.get("state") == "Deleted"}
    assert deleted == {f"http://eprints.example.org/{number}/" for number in (14, 15)}


@pytest.fixture
def old_systems() -> Iterator[str]:
    """The address of a server with the OAI-PMH interfaces of the three systems and their files."""
    app = Flask("old_systems")
    responses = load_schema("responses")

    def show(name: str) -> str:
        body = (EXPORTS / name).read_text(encoding="utf-8")
        responses.assertValid(etree.fromstring(body.encode()))
        return re.sub("http://(eprints|journal).example.org/", request.host_url, body)

    @app.get("/oai/request")
    def dspace() -> str:
        token = request.args.get("resumptionToken", "")
        assert token in ("", "oai_dc////100")
        return show(f"oai-dspace-{2 if token else 1}.xml")

    app.get("/cgi/oai2", endpoint="eprints")(lambda: show("oai-eprints.xml"))
    app.get("/index.php/rain/oai", endpoint="ojs")(lambda: show("oai-ojs.xml"))
    app.get("/12/1/paper one.txt", endpoint="paper")(lambda: "Ducks whistle.\n")

    @app.get("/index.php/rain/article/download/12/<int:galley>")
    def download(galley: int) -> tuple[str, dict[str, str]]:
        return "Choveu.\n", {"Content-Disposition": f"attachment; filename=rain-{galley}.txt"}

    app.get("/14/1/minutes.txt", endpoint="minutes")(lambda: ("Log in first", 401))
    with serving(app) as address:
        yield f"http://{address}"


def test_files_that_an_export_does_not_contain_are_downloaded(move: Move, old_systems: str) -> None:
    archive = move.folder / "archive.xml"
    text = re.sub("<data .*?</data>", "", archive.read_text(encoding="utf-8"), count=1, flags=re.S)
    archive.write_text(text.replace("<url>http://eprints.example.org", f"<url>{old_systems}"))
    assert move.run("eprints", "archive.xml") == "0"
    assert describe(move.records("eprints")[0], move.folder)[-1] == {
        "1/paper one.txt": "Ducks",
        "2/data.csv": "duck,Hz",
    }


def test_withdrawn_items_come_by_oai_pmh(move: Move, old_systems: str) -> None:
    [line] = [one for one in commands(PAGE) if "--deleted" in one]
    words = [word.strip("'") for word in line.split()[2:]]
    words[1] = words[1].replace("http://old.example.org", old_systems)
    assert move.run("oai_pmh", *words) == "0"
    [record] = move.records("deleted")
    assert record == {
        "rep": record["rep"],
        "ibip": record["ibip"],
        "key": "hdl:20.500.12345/16",
        "same_as": ["hdl:20.500.12345/16", "http://old.example.org/handle/20.500.12345/16"],
        "state": "Deleted",
        "timestamp": "2019-08-07T06:05:04Z",
        "tombstone": {"reason": "The item was withdrawn in the former repository."},
    }
    assert command(move.app, "import", move.folder / "deleted.jsonl").status == 0
    assert move.app.test_client().get(f"/{record['ibip']}").status_code == 410


@pytest.mark.parametrize(("interface", "templates", "expected"), EXPECTED["harvested"])
def test_each_system_can_be_harvested(
    move: Move,
    old_systems: str,
    interface: str,
    templates: list[str],
    expected: dict[str, list[Any]],
) -> None:
    here = [template.replace("HERE", old_systems) for template in templates]
    assert move.run("oai_pmh", old_systems + interface, *here) == "0"
    found = {}
    for record in json.loads(json.dumps(move.records("harvested")).replace(old_systems, "HERE")):
        if record.get("state") == "Deleted":
            continue
        title = record["metadata"]["dc"]["title"][0]
        found[record["key"]] = [
            title if isinstance(title, str) else title["value"],
            record["same_as"],
            record.get("language"),
            [file["path"] for file in record["files"]],
        ]
    assert found == expected
    assert command(move.app, "import", move.folder / "harvested.jsonl").status == 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nginx") is None, reason="there is no nginx")
def test_the_web_server_leads_addresses_of_files_to_the_files(
    move: Move, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    move.convert()
    move.import_all()
    monkeypatch.undo()  # from here on, commands are started
    [line] = [one for one in commands(PAGE) if one.startswith("sed ")]
    subprocess.run(["bash", "-ec", line], cwd=move.folder, check=True)
    port = free_port()
    with serving(move.app) as backend, ExitStack() as stack:
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        folders = "".join(f"{kind}_temp_path {tmp_path}/{kind};\n" for kind in kinds)
        site = FILES["old-hosts.conf"].replace("/etc/nginx", str(move.folder))
        site = site.replace("listen 80", f"listen 127.0.0.1:{port}")
        site = site.replace("127.0.0.1:8000", backend)
        (tmp_path / "nginx.conf").write_text(
            f"events {{}}\nhttp {{\naccess_log off;\n{folders}{site}}}\n"
        )
        (tmp_path / "proxy_headers.conf").write_text(FILES["proxy_headers.conf"])
        run = ["nginx", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "error.log"]
        run += ["-g", "pid nginx.pid;"]
        subprocess.run(run, check=True, stderr=subprocess.DEVNULL)
        stack.callback(subprocess.run, [*run, "-s", "stop"], check=True, capture_output=True)
        tables = [str(move.folder / f"{name}.csv") for name in CONVERSIONS]
        assert move.run("check_links", f"127.0.0.1:{port}", *tables) == "False"
    shown = capsys.readouterr().out
    assert "to the item instead of its file 0, wrong 0" in shown
    assert len(move.addresses(*CONVERSIONS)) == int(re.findall(r"right (\d+)", shown)[0])


#: What items.sql reads of the tables of DSpace 7.
DSPACE_TABLES = """
CREATE TABLE handle (handle varchar, resource_type_id int, resource_id uuid);
CREATE TABLE item2bundle (bundle_id uuid, item_id uuid);
CREATE TABLE bundle2bitstream (bundle_id uuid, bitstream_id uuid, bitstream_order int);
CREATE TABLE bitstream (uuid uuid, sequence_id int, deleted bool);
CREATE TABLE metadatavalue (metadata_field_id int, text_value text, dspace_object_id uuid);
CREATE TABLE epersongroup (uuid uuid, name varchar);
CREATE TABLE resourcepolicy (policy_id int, action_id int, start_date date, end_date date,
                             epersongroup_id uuid, dspace_object uuid);
"""


def test_the_database_of_dspace_knows_who_may_read(tmp_path: Path) -> None:
    def key(number: int) -> str:
        return f"00000000-0000-0000-0000-{number:012}"

    groups = {"Anonymous": key(900), "Administrator": key(901)}
    with new_database("postgresql", tmp_path, ready=False) as uri:
        engine = create_engine(uri)
        with engine.begin() as connection:
            for statement in DSPACE_TABLES.split(";")[:-1]:
                connection.execute(text(statement))

            def insert(table: str, *values: Any) -> None:
                names = [f":v{number}" for number in range(len(values))]
                connection.execute(
                    text(f"INSERT INTO {table} VALUES ({', '.join(names)})"),
                    dict(zip((name[1:] for name in names), values, strict=True)),
                )

            insert("handle", "20.500.12345/2", 3, key(0))
            insert("handle", "20.500.12345/12", 2, key(1))
            insert("handle", "20.500.12345/15", 2, key(2))
            for name, uuid in groups.items():
                insert("epersongroup", uuid, name)
            for number, (name, bundle, policies, _) in enumerate(EXPECTED["policies"], 1):
                insert("item2bundle", key(100 + number), key(1))
                insert("bundle2bitstream", key(100 + number), key(200 + number), 0)
                insert("bitstream", key(200 + number), number, False)
                insert("metadatavalue", 64, bundle, key(100 + number))
                insert("metadatavalue", 64, name, key(200 + number))
                insert("metadatavalue", 65, f"Description of {name}", key(200 + number))
                for group, action, first, last in policies:
                    row = (number, action, first, last, groups[group], key(200 + number))
                    insert("resourcepolicy", *row)
            query = (SCRIPTS / "items.sql").read_text(encoding="utf-8")
            found = list(connection.execute(text(query)).mappings())
        engine.dispose()
    assert list(found[0]) == EXPORTS.joinpath("items.csv").read_text().split("\n")[0].split(",")
    last = found.pop()
    assert (last["handle"], str(last["item"]), last["name"]) == ("20.500.12345/15", key(2), None)
    assert {(one["handle"], str(one["item"])) for one in found} == {("20.500.12345/12", key(1))}
    assert [(one["name"], one["sequence"], str(one["bitstream"])) for one in found] == [
        (name, number, key(200 + number))
        for number, (name, bundle, *_) in enumerate(EXPECTED["policies"], 1)
        if bundle == "ORIGINAL"
    ]
    answers = [[one["public"], one["start_date"] and str(one["start_date"])] for one in found]
    assert answers == [answer for *_, answer in EXPECTED["policies"] if answer]


@pytest.mark.slow
def test_the_commands_of_the_page_work_as_shown(tmp_path: Path, old_systems: str) -> None:
    folder = tmp_path / "reports"
    shutil.copytree(EXPORTS, folder)
    shutil.copytree(SCRIPTS, folder, dirs_exist_ok=True)
    words = {"http://old.example.org/oai/": f"{old_systems}/oai/"}
    with Shell(folder, words=words) as shell:
        (folder / "app.py").write_text(shell.here(FILES["app.py"]), encoding="utf-8")
        shell.execute("flask ibi init")
        assert shell.run(PAGE) == len(commands(PAGE))
    handles = (folder / "handles.batch").read_text().split("\n\n")
    assert len(handles) == 6  # and the end of the file
    assert handles[0].splitlines() == [
        "CREATE 20.500.12345/12",
        "100 HS_ADMIN 86400 1110 ADMIN 200:111111111111:0.NA/20.500.12345",
        "1 URL 86400 1110 UTF8 https://repository.example.org/hdl:20.500.12345/12",
    ]
