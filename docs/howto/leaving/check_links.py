"""Ask a server for old addresses, and compare the places that they and persistent URLs lead to.

    python3 check_links.py localhost:5100 dspace.csv

The server is asked under the old host names, also if these still belong to the old system.
"""

import csv
import sys
from functools import lru_cache
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urljoin, urlsplit

NOT_FOUND, GONE = 404, 410


def main(server, *tables):
    """Print each old address that leads to another place, and count all of them."""
    lines = [line for table in tables for line in Path(table).read_text("utf-8").splitlines()]
    count = {"right": 0, "to the item instead of its file": 0, "wrong": 0}
    for old, new in csv.reader(lines):
        ibi = "/".join(new.split("/")[:2])
        found = follow(server, old if "://" in old else f"http://{server}/{old}", ibi)
        if found[0] != NOT_FOUND and found == follow(server, f"http://{server}/{new}", ibi):
            count["right"] += 1
        elif found[0] != NOT_FOUND and found == follow(server, f"http://{server}/{ibi}", ibi):
            count["to the item instead of its file"] += 1
        else:
            count["wrong"] += 1
            print(f"{old} leads to {found[1]} (status {found[0]}), and not to {new}")
    print(", ".join(f"{name} {number}" for name, number in count.items()))
    sys.exit(count["wrong"] > 0)


@lru_cache(maxsize=1000)  # the addresses of an item follow each other
def follow(server, address, ibi):
    """Return the status and the path at the end of the redirects.

    The page about a withdrawn item is shown at any address. Its path is the IBI that it names.
    """
    for _ in range(10):
        parts = urlsplit(address)
        connection = HTTPConnection(server)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request("GET", target, headers={"Host": parts.netloc, "Accept": "text/html"})
        answer = connection.getresponse()
        location, body = answer.getheader("Location"), answer.read()
        connection.close()
        if not location:
            break
        address = urljoin(address, location)
    is_tombstone = answer.status == GONE and ibi.encode() in body
    return answer.status, ibi if is_tombstone else urlsplit(address).path


if __name__ == "__main__":
    main(*sys.argv[1:])
