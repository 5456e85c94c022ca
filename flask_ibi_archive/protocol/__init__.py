"""The messages between Archives and resolvers: parsing, formatting, and the answer of an Archive.

A resolver sends a request to an Archive as a URL with a query. The answer is a list of pairs, each
with a name and a value. The module ``query`` reads and writes queries, and ``pairs`` reads and
writes answers. Both the Archive and the resolver use this package. Its functions need neither a
clock nor a database or network.

Source: [R], chapters 4, 5 and 7.
"""
