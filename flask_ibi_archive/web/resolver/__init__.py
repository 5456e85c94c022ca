"""What a resolver shows on the web: where persistent URLs lead, its service, its front page."""
