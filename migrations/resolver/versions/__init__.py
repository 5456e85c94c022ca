"""The revisions, oldest first by their numbers. A revision that was released is never changed."""
