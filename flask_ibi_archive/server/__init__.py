"""The parts that Archives and resolvers share: settings, database, HTTP, pages and commands."""
