"""The messages between Archives and resolvers: parsing, formatting, and the answer of an Archive.

A resolver sends a request to an Archive as a URL with a query. The answer is a list of pairs. Each
pair has a name and a value. The module ``pairs`` reads and writes queries and answers, ``messages``
the requests to an Archive, ``inclusion`` those to a resolver, and ``url_list`` builds the answer to
a urlRequest. Archives and resolvers use this package. The package uses no clock, no database and no
network.

Source: [R], chapters 4, 5 and 7.
"""
