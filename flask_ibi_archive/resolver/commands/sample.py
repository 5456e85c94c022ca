"""The command ``sample``: says which share of the identifiers leads to a page."""

from __future__ import annotations

from functools import partial
from secrets import randbelow

import click

from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.server.commands import group, terminal


@click.command("sample")
@click.argument("number", metavar="N", type=click.IntRange(1, 1_000_000))
@click.option("--seed", type=int, help="The same number chooses the same identifiers again.")
@group.delay_option
@group.json_option
def sample_command(number: int, seed: int | None, delay: float, as_json: bool) -> None:
    """State which share of random identifiers leads to a page.

    The command resolves N random identifiers. They are chosen from the claims that the resolver has
    read; if there are none, from the identifiers that were found lately. The resolver asks the
    Archives as for a reader, but sends no acknowledgment. Then the page is requested to which the
    reader would be redirected. The command prints the share with its confidence interval, then one
    line for each failure: the identifier, the address of the page, and what is wrong.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver sample 200
    """
    from flask_ibi_archive.resolver.failures import sampling

    resolver = get_resolver()
    terminal.standard_output()
    seed = randbelow(10**6) if seed is None else seed
    ibis = sampling.choose_sample(resolver, number, seed)
    with terminal.Bars(checked="Resolving") as bars:
        results = sampling.check_sample(resolver, ibis, delay, partial(bars.show, "checked"))
    checked = [result for result in results if not result.postponed]
    failures = [result for result in checked if result.error is not None]
    pages = len(checked) - len(failures)
    low, high = sampling.find_interval(pages, len(checked))
    if as_json:
        terminal.write_json(
            {
                "identifiers": len(checked),
                "pages": pages,
                "share": pages / len(checked) if checked else None,
                "low": low,
                "high": high,
                "postponed": len(results) - len(checked),
                "seed": seed,
                "failures": [
                    {"identifier": one.ibi, "url": one.url, "error": one.error} for one in failures
                ],
            }
        )
        return
    terminal.write(
        f"{pages} of {len(checked)} identifiers lead to a page "
        f"(95 % confidence interval of the share: {low:.1%} to {high:.1%}; seed {seed})"
    )
    if len(results) > len(checked):
        terminal.write(f"{len(results) - len(checked)} not checked: their servers are overloaded")
    for one in failures:
        terminal.write(f"{one.ibi}\t{one.url or ''}\t{one.error}")
