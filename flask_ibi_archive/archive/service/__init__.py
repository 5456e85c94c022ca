"""The service of an Archive: the answer to a urlRequest, the URL list, URL keys."""
