"""OAI-PMH 2.0, the Open Archives Initiative Protocol for Metadata Harvesting: requests, responses.

Source: http://www.openarchives.org/OAI/2.0/openarchivesprotocol.htm.
"""
