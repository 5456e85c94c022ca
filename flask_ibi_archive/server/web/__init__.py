"""The web pages of Archives and resolvers: rendering, alerts, translations, static files."""
