"""The records of items and the descriptions of works: classes, parsing and formatting.

Import files and export files contain records. Such a file has the format JSON Lines: each line is a
JSON object that describes one item. The commands for import and export use this package. The
methods that deposit an item also use this package.
"""
