"""The commands for backups and checks of links."""
