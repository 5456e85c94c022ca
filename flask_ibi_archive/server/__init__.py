"""What an Archive and a resolver need to run: settings, database, HTTP, pages and commands."""
