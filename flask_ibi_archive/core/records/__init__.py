"""The records of items and the descriptions of works: classes, parsing and formatting.

A record describes one item. Import files and export files contain one record in each line, as a
JSON object (JSON Lines). The commands for import and export, and the methods that deposit an item,
use this package.

- ``record``: the classes of a record. ``values``: the parsers of single fields.
- ``description``: the bibliographic description inside of a record. ``rich_text``: its markup.
- ``work``: what pages and metadata formats need about an item. ``formats``: these formats.
- ``page_head``: the ``meta`` elements and links of landing pages.
- ``readers`` and ``csl_reader``: files of other programs: tables and CSL-JSON.
- ``offer_messages``: the messages with which an Archive gives items to another Archive.
"""
