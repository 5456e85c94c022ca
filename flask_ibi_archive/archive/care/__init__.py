"""Care for an Archive: backup, verification, links."""
