"""The revisions of a resolver, oldest first. A revision that was released is never changed."""
