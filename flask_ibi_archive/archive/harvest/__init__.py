"""Harvesting with OAI-PMH: other servers read descriptions of the items that have changed.

- ``oai_pmh``: the view, which finds the records that a request asks for.
- ``messages``: parses the requests, and writes the responses as XML. It reads no database.

The change log, which numbers the changes of items, is :mod:`.items.changes`.
"""
