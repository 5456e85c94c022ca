"""The revisions of an Archive, oldest first. A revision that was released is never changed."""
