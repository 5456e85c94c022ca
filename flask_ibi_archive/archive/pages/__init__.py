"""The pages of an item: landing page, files, metadata; lists for crawlers."""
