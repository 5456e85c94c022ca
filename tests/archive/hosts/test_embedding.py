"""The application of the page about embedding, before and after it embeds an Archive."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from support.commands import ROOT

PAGE = (ROOT / "docs/howto/embed.rst").read_text(encoding="utf-8")
#: The application as a diff, and the commands that follow it.
[(DIFF, COMMANDS)] = re.findall(
    r"^\.\. code-block:: diff\n\n(.*?)^These commands .*?:: console\n\n(.*?)^From now on",
    PAGE,
    re.MULTILINE | re.DOTALL,
)
#: Runs commands of flask in one process. Its arguments are the commands.
RUN = """
import shlex, sys
from app import create_app

for command in sys.argv[1:]:
    result = create_app().test_cli_runner().invoke(args=shlex.split(command)[1:])
    print(result.output)
    if result.exit_code:
        raise SystemExit(f"{command}: {result.exception!r}")
"""
ADD = """
from app import Attachment, Person, Thesis, UPLOADS, create_app, db

UPLOADS.mkdir(exist_ok=True)
with create_app().app_context():
    author = Person(name="Silva, Ana")
    for number in (1, 2):
        name = f"{number}.pdf"
        (UPLOADS / name).write_bytes(b"%PDF")
        thesis = Thesis(title=f"Thesis {number}", author=author)
        thesis.attachments.append(Attachment(name=name))
        db.session.add(thesis)
    db.session.commit()
"""
ASK = """
from app import Attachment, Person, Thesis, UPLOADS, create_app, db, ibi

(UPLOADS / "3.pdf").write_bytes(b"%PDF 3")
app = create_app()
with app.app_context():
    author = db.session.scalar(db.select(Person))
    third = Thesis(title="Thesis 3", author=author, attachments=[Attachment(name="3.pdf")])
    db.session.add(third)
    db.session.commit()
    author.name = "Souza, Ana"
    db.session.commit()
    for thesis in db.session.scalars(db.select(Thesis)):
        found = app.test_client().get(f"/{thesis.ibi}")
        page = app.test_client().get(found.location, base_url="http://repository.example.org")
        item = ibi.archive.get(thesis.ibi)
        is_url = item.ibi in thesis.persistent_url
        print(item.title, item.creators, is_url, page.status_code, page.data)
    ibi.removing(third, reason="Retracted by the author.")
    db.session.delete(third)
    db.session.commit()
    page = app.test_client().get(f"/col/{third.ibi}/")
    print(page.status_code, "Retracted by the author." in page.text)
"""


def lines_of(diff: str, mark: str) -> str:
    """Return the file after the change (mark "+") or before the change (mark "-")."""
    lines = [line[4:] for line in diff.splitlines()]
    return "".join(f"{line[1:]}\n" for line in lines if line[:1] in ("", " ", mark))


def run(folder: Path, script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_at_most_fifteen_lines_embed_an_archive_with_related_rows() -> None:
    added = [line for line in DIFF.splitlines() if line.startswith("    +")]
    assert 0 < len(added) <= 15
    assert any("ibi_depends_on = (" in line for line in added)


@pytest.mark.slow
def test_the_lines_and_commands_of_the_page_give_identifiers_to_all_rows(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(lines_of(DIFF, "-"))
    run(tmp_path, RUN, "flask db init", "flask db migrate", "flask db upgrade")
    run(tmp_path, ADD)
    (tmp_path / "app.py").write_text(lines_of(DIFF, "+"))
    commands = [
        command.strip(" $") for line in COMMANDS.split("\n") for command in line.split("&&")
    ]
    run(tmp_path, RUN, *filter(None, commands))
    assert run(tmp_path, ASK) == dedent(
        """\
        Thesis 1 ['Souza, Ana'] True 200 b'%PDF'
        Thesis 2 ['Souza, Ana'] True 200 b'%PDF'
        Thesis 3 ['Souza, Ana'] True 200 b'%PDF 3'
        410 True
        """
    )
