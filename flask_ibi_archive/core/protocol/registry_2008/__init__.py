"""The registry protocol of 2008: the requests of actors, and the answers of a resolver.

Before Archives existed, data providers ("actors") told the resolver where their documents are. An
actor registers itself, and then the URLs of each document. The actor that registers a document
first has the *document*. All later actors have *copies* of the document.

A request is a verb with arguments, in the query of a URL or in the body of a POST request. The
module ``model`` contains the classes. The module ``registry_messages`` parses and formats the
messages.

Source: [P] 4.
"""
