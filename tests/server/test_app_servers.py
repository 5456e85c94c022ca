"""Several app servers (processes) serve one Archive with one database."""

from __future__ import annotations

import http.client
from collections import Counter
from pathlib import Path

import pytest
from support.archives import SERVICE, archive_of, close, initialise, make_app
from support.loopback import PATIENCE
from support.resolvers import servers

ROUNDS, SERVERS = 10, 3


@pytest.mark.slow
def test_all_servers_answer_for_an_item_as_soon_as_one_has_added_it(
    uri: str, tmp_path: Path
) -> None:
    first, second = (make_app(uri, tmp_path) for _ in range(2))
    initialise(first, uri)
    minted: Counter[str] = Counter()
    with servers(uri, tmp_path, SERVERS) as running:
        for number in range(ROUNDS):
            item = archive_of((first, second)[number % 2]).deposit(language="en")
            minted.update([item.rep, item.ibip])
            target = (
                f"/{SERVICE}?servicesubject=urlRequest&clientinformation.ipaddress=1.1.1.1"
                f"&parsedibiurl.ibi={item.ibip}"
            )
            # each connection is accepted by any of the servers
            for _ in range(2 * SERVERS):
                connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=PATIENCE)
                connection.request("GET", target)
                assert item.rep in connection.getresponse().read().decode()
                connection.close()
    assert set(minted.values()) == {1}
    close(first)
    close(second)
