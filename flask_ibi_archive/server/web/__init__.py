"""What the pages of both products share: rendering, alerts, translations, static files."""
