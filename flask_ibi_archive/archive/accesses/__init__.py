"""Accesses: the stored reports of resolvers that a reader has requested an item.

When a resolver has redirected a reader to an item, the resolver sends the Archive an
acknowledgment. The Archive stores each valid acknowledgment as an access. The Archive counts the
accesses of each day. The statistics are computed from these daily counts. Old accesses are deleted
(purged), but the daily counts are never deleted.

- ``acknowledgments``: checks each acknowledgment, and stores the access.
- ``rows``: the tables and statements of accesses, counts and pseudonyms; recognises robots.
- ``statistics``: computes and shows the statistics, and purges old accesses.
- ``commands``: the commands ``stats`` and ``purge``.
"""
