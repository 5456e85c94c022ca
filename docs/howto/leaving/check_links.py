"""Ask a server for old addresses, and compare the places that they and persistent URLs lead to.

    python3 check_links.py localhost:5100 dspace.csv

The server is asked under the old host names, also if these still belong to the old system.
"""

import csv
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urljoin, urlsplit


def main(server, *tables):
    """Print each old address that leads to another place, and how many lead to the right one."""
    lines = [line for table in tables for line in Path(table).read_text("utf-8").splitlines()]
    rows, wrong = list(csv.reader(lines)), 0
    for old, new in rows:
        address = old if "://" in old else f"http://{server}/{old}"
        expected, found = follow(server, f"http://{server}/{new}"), follow(server, address)
        if expected[1:] != found[1:] or found[0] == 404:
            wrong += 1
            print(f"{old} leads to {found}, and not to {expected}")
    print(f"right {len(rows) - wrong}, wrong {wrong}")
    sys.exit(wrong > 0)


def follow(server, address):
    """Return the status and the path at the end of all redirects."""
    for _ in range(10):
        parts = urlsplit(address)
        connection = HTTPConnection(server)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request("GET", target, headers={"Host": parts.netloc, "Accept": "text/html"})
        answer = connection.getresponse()
        location = answer.getheader("Location")
        connection.close()
        if not location:
            break
        address = urljoin(address, location)
    return answer.status, urlsplit(address).path


if __name__ == "__main__":
    main(*sys.argv[1:])
