"""What an Archive shows on the web: the service, pages for people, health."""
