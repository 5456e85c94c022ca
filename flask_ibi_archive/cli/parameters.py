"""The type of command parameters that are an IBI."""

from __future__ import annotations

import click


def read_ibi(text: str) -> str:
    """Return the IBI of a persistent URL, or any other text unchanged.

    The command checks a text that is not a URL.

    :raises MalformedPersistentUrl: if it is a URL without an IBI.
    :raises BadParameter: if the URL has more than an IBI.
    """
    from flask_ibi_archive.resolution.persistent_url import (
        PersistentUrl,
        is_persistent_url,
        parse_persistent_url,
    )

    if not is_persistent_url(text):
        return text
    url = parse_persistent_url(text)
    if url != PersistentUrl(url.ibi):
        raise click.BadParameter(
            f"{text!a} has a modifier, a path or a query after the IBI; this command accepts only "
            f"{url.ibi}"
        )
    return url.ibi.text
