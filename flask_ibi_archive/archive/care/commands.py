"""The commands backup, restore, verify and check-links: they protect against the loss of data."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flask_ibi_archive.server.commands import group, terminal

if TYPE_CHECKING:
    from flask_ibi_archive.archive.care.backup import BackupManifest, ContentFault
    from flask_ibi_archive.archive.care.link_check import LinkFailure
    from flask_ibi_archive.archive.care.verification import Fault, Verification


@click.command("backup")
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path))
@group.json_option
def backup_command(target: Path, as_json: bool) -> None:
    """Write the database and all stored files to a ZIP file.

    The backup contains all Archives of the database in their state at one moment. Other processes
    may write to the database during the backup. The command replaces an existing FILE only when the
    backup is complete. A backup can be restored to SQLite and to PostgreSQL.

    The backup also contains files with restricted access and the administrator's address. Protect
    the backup like the database. The backup does not contain settings such as SECRET_KEY.

    The command reports stored files that are missing or damaged. The exit status is then 1. The
    backup contains all other files. It also reports malformed values in rows. The backup contains
    the other values of these rows, and the malformed ones as text, in malformed.jsonl.

    \b
    Example:
      flask --app example_app ibi backup /var/backups/archive.zip
    """
    from flask_ibi_archive.archive.care.backup import BackupWriter

    archive = group.get_archive()
    group.note_host_items(archive, "in this backup")
    if as_json:
        terminal.standard_output()
    malformed = 0
    with terminal.Bars(rows="Writing tables", bytes="Writing files") as bars:

        def report(fault: ContentFault) -> None:
            nonlocal malformed
            malformed += fault.kind == "malformed"
            bars.clear()
            terminal.say(f"{fault.kind}: {fault.text}")

        writer = BackupWriter(archive.database, archive.files_folder, report, bars.show)
        summary = writer.write(target)
    _write_summary(summary, "written", as_json)
    if summary.faults:
        terminal.say(
            f"Error: {summary.faults} stored files are missing or damaged in {target}; "
            "flask ibi verify lists the items that need these files"
        )
    if malformed:
        terminal.say(
            f"Error: {malformed} values of rows are malformed; {target} has them as text only"
        )
    if summary.faults or malformed:
        raise click.exceptions.Exit(1)


@click.command("restore")
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Check FILE. Change nothing.")
@click.option("--replace", is_flag=True, help="Delete the contents of the database first.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@group.json_option
def restore_command(source: Path, dry_run: bool, replace: bool, yes: bool, as_json: bool) -> None:
    """Restore a backup, completely or not at all.

    The database must not contain an Archive, unless --replace is used. --replace first deletes the
    contents of the database. On a terminal, the command then asks for confirmation. The command
    checks all of FILE before it changes anything. Restart running servers afterwards.

    The clock of this computer must be right. Then new identifiers differ from all earlier
    identifiers, even from identifiers that were minted after the backup.

    An item that was moved to another server since the backup does not become an Original again, if
    the replaced database or an offer in FILE says that it may have been moved. The command names
    these offers.

    A backup contains the log of claims, but not its private key. If the Archive has signed claims
    that are not in FILE, the log begins anew with a new key. The command then says so: run flask
    ibi register-archive.

    With --dry-run, an empty database is filled in a transaction. The transaction is rolled back.

    \b
    Example:
      flask --app example_app ibi restore /var/backups/archive.zip
    """
    from flask_ibi_archive.archive.care.restore import Restorer

    archive = group.get_archive()
    if as_json or dry_run:
        terminal.standard_output()
    # a script is not asked: there, --replace is sufficient
    asks = replace and not (dry_run or yes)
    if asks and sys.stdin is not None and sys.stdin.isatty():
        terminal.confirm(
            "Delete the contents of the database? Data that is not in FILE is lost.", yes
        )
    with terminal.Bars(bytes="Checking", rows="Restoring tables") as bars:
        restorer = Restorer(archive.database, archive.files_folder, replace, dry_run, bars.show)
        summary = restorer.run(source)
    if dry_run and not as_json:
        terminal.write(f"would be restored: {_format_summary(summary)}")
    else:
        _write_summary(summary, "restored", as_json)
    for note in restorer.notes:
        terminal.warn(note)
    status = None if dry_run else archive.claims.status()
    if status is not None and status.number and status.warning is not None:
        terminal.warn(status.warning)
    if summary.faults:
        terminal.warn(
            f"{summary.faults} stored files were missing or damaged when {source} was made; "
            "run flask ibi verify"
        )


def _format_summary(summary: BackupManifest) -> str:
    return (
        f"{len(summary.archives)} Archives ({', '.join(summary.archives)}), {summary.items} items, "
        f"{summary.contents} stored files ({summary.bytes} bytes)"
    )


def _write_summary(summary: BackupManifest, verb: str, as_json: bool) -> None:
    if as_json:
        terminal.write_json(summary.summarise())
    elif sys.stderr.isatty():
        terminal.say(f"{verb}: {_format_summary(summary)}")


@click.command("verify")
@click.argument("identifiers", metavar="[IBI]...", type=group.read_ibi, nargs=-1)
@click.option(
    "--prune", is_flag=True, help="Delete stored files that no item has needed for a day."
)
@click.option(
    "--dry-run", is_flag=True, help="With --prune: only count the files that would be deleted."
)
@click.option(
    "--yes",
    is_flag=True,
    help="With --prune: also delete more than 10 files that are more than a tenth of all files.",
)
@group.json_option
def verify_command(
    identifiers: tuple[str, ...], prune: bool, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Check the stored files against their checksums.

    Checks the files of the items with the given IBIs. Without an IBI, checks the files of all
    items, and the log of claims: its entries, hashes and size, and whether the last claims fit the
    items.

    Writes one line for each faulty file. The line contains the kind of the fault (missing,
    truncated, altered, swapped or unreadable), the IBI of the item, the path of the file, and
    advice on the repair. Errors in the log of claims have the kind "claims". The exit status is 1
    if a file is faulty or the log has an error. Otherwise, the command writes the number of
    verified files, but only if the output is a terminal.

    --prune deletes nothing if the folder of files also belongs to an Archive of another database,
    if this Archive is not entered there (init and each new file enter it), or if the folder
    contains unknown files.

    \b
    Example:
      flask --app example_app ibi verify
    """
    from flask_ibi_archive.archive.care.verification import Verifier

    if prune and identifiers:
        raise click.UsageError("--prune checks the files of all items; omit IBI")
    for option, given in (("--dry-run", dry_run), ("--yes", yes)):
        if given and not prune:
            raise click.UsageError(f"{option} requires --prune")
    archive = group.get_archive()
    group.note_host_items(archive, "verified")
    terminal.standard_output()
    errors: list[str] = []
    with terminal.Bars(bytes="Verifying", claims="Verifying claims") as bars:
        faults = FaultList(bars, as_json)
        verifier = Verifier(
            archive.database,
            archive.served().id,
            archive.files_folder,
            faults.add,
            lambda done, total: bars.show("bytes", done, total),
        )
        result = verifier.run(identifiers, prune, dry_run, yes)
        if not identifiers:
            errors = archive.claims.verify(lambda done, total: bars.show("claims", done, total))
    faults.finish(result, errors)
    if not as_json:
        for error in errors:
            terminal.write(f"claims\t{error}")
        _report_counts(result, prune, dry_run)
    if result.faults or errors:
        raise click.exceptions.Exit(1)


class FaultList:
    """Writes faulty files to standard output, as lines or as JSON."""

    def __init__(self, bars: terminal.Bars, as_json: bool) -> None:
        self._bars = bars
        self._as_json = as_json
        self._count = 0

    def add(self, fault: Fault) -> None:
        """Write one fault immediately."""
        self._bars.clear()
        if self._as_json:
            start = "," if self._count else '{"faults": ['
            terminal.write(f"{start}\n{json.dumps(asdict(fault), ensure_ascii=False)}", nl=False)
        else:
            terminal.write(f"{fault.kind}\t{fault.ibi}\t{fault.path}\t{fault.advice}")
        self._count += 1

    def finish(self, result: Verification, errors: Sequence[str]) -> None:
        """Write the counts and end the JSON object.

        :param errors: the errors in the log of claims.
        """
        if self._as_json:
            counts = {**asdict(result), "faulty": result.faults, "claims": errors}
            del counts["faults"]
            start = "\n]" if self._count else '{"faults": []'
            terminal.write(f"{start}, {json.dumps(counts)[1:]}")


def _report_counts(result: Verification, prune: bool, dry_run: bool) -> None:
    """Write the counts. Only the counts of a dry run are also written without a terminal."""
    unneeded = f"{result.unneeded} stored files ({result.unneeded_bytes} bytes) that no item needs"
    if dry_run:
        terminal.write(f"would delete {unneeded}, and {result.leftovers} temporary folders")
    if not sys.stderr.isatty():
        return
    terminal.say(
        f"checked {result.files} files ({result.bytes} bytes): {result.faults} files are faulty"
    )
    if prune and not dry_run:
        terminal.say(f"deleted {unneeded}, and {result.leftovers} temporary folders")
    elif result.unneeded and not prune:
        terminal.say(f"there are {unneeded}; verify --prune deletes them")


@click.command("check-links")
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    default=0,
    metavar="HOURS",
    help="Skip links that were already checked in the last HOURS.",
)
@click.option("--host", help="Check only the links to this host.")
@group.delay_option
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="The number of hosts that are checked at the same time.",
)
@group.json_option
def check_links_command(
    older_than: float, host: str | None, delay: float, threads: int, as_json: bool
) -> None:
    """Check that the external addresses of items still answer.

    External addresses are the addresses of files, metadata and metadata formats on other hosts.
    The command checks each address once. A host gets one request at a time. The command does not
    read robots.txt, because the Archive shows the same addresses to its readers.

    An address is reported after IBI_LINK_FAILURES consecutive failed checks. The report contains
    one line for each such address: the address, the time of the first failure, the reason, and the
    items that use the address, separated by tabs. The exit status is 1 if an address is reported.
    A summary is written to standard error. Without a terminal, the summary is written only if an
    address is reported.

    Each result is stored immediately. If a run is stopped, the next run starts with the addresses
    whose last check is the oldest. Items are not changed.

    \b
    Example:
      flask --app example_app ibi check-links --older-than 20
    """
    from flask_ibi_archive.archive.care.link_check import LinkChecker

    archive = group.get_archive()
    group.note_host_items(archive, "checked")
    terminal.standard_output()
    checker = LinkChecker(
        archive, delay=delay, threads=threads, older_than=timedelta(hours=older_than), host=host
    )
    due = checker.find_links()
    done = count(1)
    with terminal.Bars(addresses="Checking") as bars:
        checker.check(lambda step: bars.show("addresses", next(done), due))
    reported = write_report(checker.report(), as_json)
    # cron sends all output by e-mail; so without a terminal, nothing is written if all links work
    if reported or bars.shown:
        counts = ", ".join(
            f"{checker.results.get(name, 0)} {name}" for name in ("answered", "failed", "put off")
        )
        total = sum(checker.results.values())
        terminal.say(f"checked {total} addresses: {counts}; {reported} reported as broken")
    if reported:
        raise click.exceptions.Exit(1)


def write_report(failures: Iterator[LinkFailure], as_json: bool) -> int:
    """Write broken links to standard output, and return the number of broken links."""
    counter = count()  # zip() advances the counter once for each failure
    counted = (failure for failure, _ in zip(failures, counter, strict=False))
    if as_json:
        terminal.write_json_list(failure.to_json() for failure in counted)
    else:
        for failure in counted:
            terminal.write(failure.format())
    return next(counter)
