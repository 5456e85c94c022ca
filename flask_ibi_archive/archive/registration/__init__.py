"""Registration of an Archive with a resolver ([R] 5).

The administrator first sends an e-mail with a registration key to the resolver. Then the Archive
requests its inclusion: from then on the resolver sends its requests to the Archive. An exclusion
ends this.
"""
