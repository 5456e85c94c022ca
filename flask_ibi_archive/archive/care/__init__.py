"""Care for an Archive: verification of files, check of links."""
