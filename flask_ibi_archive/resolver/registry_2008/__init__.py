"""The document registry: the registry protocol of 2008 ([P] 4).

Data providers ("actors") register the URLs of their documents with the resolver. The resolver then
resolves these documents together with the items of the Archives.
"""
