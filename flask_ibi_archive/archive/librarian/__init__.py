"""The page of the librarian: what needs attention, and a form to withdraw items.

The host shows the page behind its own login. The package is above the subjects of the Archive,
because the page shows results of several of them.
"""
