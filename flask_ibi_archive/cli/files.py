"""The contents of files: verify."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.bars import Bars
from flask_ibi_archive.cli.group import json_option, say, standard_output, the_archive, write
from flask_ibi_archive.cli.parameters import read_ibi

if TYPE_CHECKING:
    from flask_ibi_archive.archive.verification import Fault, Verification


@click.command("verify")
@click.argument("identifiers", metavar="[IBI]...", type=read_ibi, nargs=-1)
@click.option("--prune", is_flag=True, help="Take out contents that no file needs, a day after.")
@click.option("--dry-run", is_flag=True, help="With --prune: only tell how many.")
@json_option
@with_appcontext
def verify_command(identifiers: tuple[str, ...], prune: bool, dry_run: bool, as_json: bool) -> None:
    """Check the stored files against their checksums.

    Those of all items, or of those that IBI names. A line a fault: its kind (missing, truncated,
    altered, swapped, unreadable), the item's IBI, the file, what was found and what to do. Ends
    with status 1 when there is one. Without a terminal nothing is said when all is well.

    \b
    Example:
      flask --app example_app ibi verify
    """
    if prune and identifiers:
        raise click.UsageError("--prune looks at the files of all items; leave the IBIs out")
    if dry_run and not prune:
        raise click.UsageError("--dry-run goes with --prune")
    archive = the_archive()
    standard_output()
    separator = '{"faults": ['

    with Bars(bytes="Verifying") as bars:

        def tell(fault: Fault) -> None:
            nonlocal separator
            bars.clear()
            if as_json:
                write(f"{separator}\n{json.dumps(asdict(fault), ensure_ascii=False)}", nl=False)
                separator = ","
            else:
                write(f"{fault.kind}\t{fault.ibi}\t{fault.path}\t{fault.advice}")

        found = archive.verify(
            identifiers, prune, dry_run, tell, lambda done, total: bars.show("bytes", done, total)
        )
    if as_json:
        counts = {**asdict(found), "faulty": found.faults}
        del counts["faults"]
        end = "]" if separator != "," else "\n]"
        write(f"{separator if separator != ',' else ''}{end}, {json.dumps(counts)[1:]}")
    else:
        _tell(found, prune, dry_run)
    if found.faults:
        raise click.exceptions.Exit(1)


def _tell(found: Verification, prune: bool, dry_run: bool) -> None:
    """Tell what was found: with a dry run to whoever asked, else to a terminal."""
    unneeded = f"{found.unneeded} contents ({found.unneeded_bytes} bytes) that no file needs"
    if dry_run:
        write(f"would take out {unneeded}, and {found.leftovers} leftovers of broken writes")
    if not sys.stderr.isatty():
        return
    say(f"{found.files} files, {found.bytes} bytes looked at, {found.faults} with a fault")
    if prune and not dry_run:
        say(f"taken out: {unneeded}, {found.leftovers} leftovers of broken writes")
    elif found.unneeded and not prune:
        say(f"there are {unneeded}; verify --prune takes them out")
