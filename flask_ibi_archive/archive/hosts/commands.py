"""The commands adopt and compare, about the rows of the host's own models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.server.commands.group import get_archive, json_option
from flask_ibi_archive.server.commands.terminal import (
    Bars,
    standard_output,
    write,
    write_json_list,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.hosts.differences import Difference
    from flask_ibi_archive.archive.hosts.identified_item import IdentifiedItem
    from flask_ibi_archive.errors import RowError


@click.command("adopt")
@click.argument("model", metavar="MODULE:MODEL")
@click.option("--where", metavar="SQL", help="Adopt only the rows that fulfil an SQL condition.")
@click.option("--dry-run", is_flag=True, help="Report all problems. Change nothing.")
@click.option(
    "--resume",
    is_flag=True,
    help="Commit in batches. Continue after the last batch of an interrupted run.",
)
def adopt_command(model: str, where: str | None, dry_run: bool, resume: bool) -> None:
    """Assign identifiers and items to existing rows of a model.

    MODULE:MODEL is a model with IdentifiedItem, such as myapp.models:Thesis. The table must already
    have the columns of IdentifiedItem. Rows that have identifiers are ignored. If a row refers to
    another row as its previous edition or as the item that it translates, the other row is adopted
    too, even if it does not fulfil --where.

    Rows that have lost their identifiers get them back: the Archive knows the table and the primary
    key of each item. If the Archive has items of this table whose rows are missing, other rows are
    not adopted, because they might be the same rows with other primary keys.

    If a row cannot be adopted, its class, its primary key, the wrong field and the reason are
    written to standard output, one line per row. The other rows are adopted. The exit status is 1.
    Correct the rows and run the command again.

    Without --resume, all rows are adopted in one transaction. With --resume, the rows are committed
    in batches. If the adoption is interrupted, run the same command again to continue.

    With --dry-run, nothing is written and no identifier is used up.

    \b
    Example:
      flask --app example_app ibi adopt example_app.models:Publication --where "year > 1990"
    """
    from flask_ibi_archive.archive.hosts.adopting import Adopter
    from flask_ibi_archive.archive.hosts.current_archive import get_archive_with_session

    if resume and dry_run:
        raise click.UsageError(
            "--dry-run can't be used with --resume, because a dry run stores nothing."
        )
    get_archive()  # reports an app without an Archive
    model_class = load_model(model)
    archive = get_archive_with_session()
    assert archive.session is not None
    standard_output()
    with Bars(rows="Adopting") as bars:

        def report(error: RowError) -> None:
            bars.clear()
            write(str(error))

        def show(done: int, total: int) -> None:
            bars.show("rows", done, total)

        session = archive.session.current()
        result = Adopter(archive, session, model_class, where, dry_run, resume, report, show).run()
    would = "would be " if dry_run else ""
    again = f"{would}reconnected {result.reconnected}, " if result.reconnected else ""
    write(f"{would}adopted {result.adopted}, {again}{would}refused {result.refused}")
    if result.refused:
        rows = "1 row" if result.refused == 1 else f"{result.refused} rows"
        could = "can't" if dry_run else "could not"
        raise click.ClickException(f"{rows} {could} be adopted; correct them and run adopt again")


@click.command("compare")
@click.argument("model", metavar="MODULE:MODEL")
@click.option("--repair", is_flag=True, help="Repair the differences.")
@click.option(
    "--reason",
    metavar="TEXT",
    help='The reason in new tombstones. Default: "removed by the repository".',
)
@json_option
def compare_command(model: str, repair: bool, reason: str | None, as_json: bool) -> None:
    """Compare the rows of a model with their items.

    MODULE:MODEL is a model with IdentifiedItem, such as myapp.models:Thesis. Bulk statements,
    deletions by the database and restores of a single table change rows without their items. The
    command reports rows without an item, rows that have lost their identifier, rows whose record
    differs from that of the item, rows with the identifier of another row, and items whose row is
    missing. The exit status is 1 if there are differences.

    With --repair, rows get back their identifiers, items are deposited and changed, and an item
    whose row is missing becomes a tombstone, which is permanent. These are the items of the whole
    table, also if the model is a subclass. Run the command without --repair first. A row with the
    identifier of another row gets its own. The repairs are committed in batches. The exit status is
    1 if a difference remains.

    \b
    Example:
      flask --app example_app ibi compare example_app.models:Publication
    """
    from flask_ibi_archive.archive.hosts.comparing import Comparer
    from flask_ibi_archive.archive.hosts.current_archive import get_archive_with_session
    from flask_ibi_archive.archive.hosts.identified_item import DEFAULT_REASON
    from flask_ibi_archive.core.records.values import FieldError, parse_text

    get_archive()  # reports an app without an Archive
    model_class = load_model(model)
    archive = get_archive_with_session()
    assert archive.session is not None
    if reason is not None and not repair:
        raise click.UsageError("--reason can't be used without --repair")
    try:
        stated = DEFAULT_REASON if reason is None else parse_text("--reason", reason)
    except FieldError as error:
        raise click.UsageError(str(error)) from error
    standard_output()
    counts: Counter[bool] = Counter()
    with Bars(rows="Comparing") as bars:
        comparer = Comparer(
            archive,
            archive.session.current(),
            model_class,
            repair,
            stated,
            lambda done, total: bars.show("rows", done, total),
        )

        def find() -> Iterator[Difference]:
            for one in comparer.run():
                counts[one.repaired] += 1
                bars.clear()
                yield one

        if as_json:
            write_json_list(asdict(one) for one in find())
        else:
            for one in find():
                write(f"{one.row}: {one.text}{' (repaired)' if one.repaired else ''}")
    if not as_json:
        repaired = f", repaired {counts[True]}" if repair else ""
        found = f"compared {comparer.rows} rows and {comparer.items} items"
        write(f"{found}: differences {counts.total()}{repaired}")
    if counts[False]:
        raise click.exceptions.Exit(1)


def load_model(name: str) -> type[IdentifiedItem]:
    """Return the model that a text such as ``myapp.models:Thesis`` names.

    :raises BadParameter: if there is no such model, or if the model has no IdentifiedItem.
    """
    module_name, _, class_name = name.partition(":")
    if not module_name or not class_name:
        raise _refuse(f"{name!a} should be MODULE:MODEL, such as myapp.models:Thesis")
    try:
        module = import_module(module_name)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise _refuse(
            f"the module {module_name} can't be imported: {type(error).__name__}: {reason}"
        ) from error
    model: Any = getattr(module, class_name, None)
    if not _is_model(model):
        models = sorted(key for key, value in vars(module).items() if _is_model(value))
        raise _refuse(
            f"{class_name} is not a model with IdentifiedItem; the models with IdentifiedItem in "
            f"{module_name} are: {', '.join(models) or 'none'}"
        )
    model_class: type[IdentifiedItem] = model
    return model_class


def _is_model(value: Any) -> bool:
    from sqlalchemy import inspect

    from flask_ibi_archive.archive.hosts.identified_item import IdentifiedItem

    is_ours = isinstance(value, type) and issubclass(value, IdentifiedItem)
    return is_ours and inspect(value, raiseerr=False) is not None


def _refuse(reason: str) -> click.BadParameter:
    return click.BadParameter(reason, param_hint="'MODULE:MODEL'")
