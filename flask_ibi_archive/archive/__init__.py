"""An Archive in a Flask app. Each package is a subject with its operations, pages and commands."""
