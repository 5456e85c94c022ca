"""The document registry of a resolver: the registry protocol of 2008 ([P] 4).

Data providers ("actors") register the URLs of their documents with the resolver. For a resolution,
the registry is a source of answers beside the Archives (``operations.py``).
"""
