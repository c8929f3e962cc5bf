"""Keep the conversations of your AI coding tools in one SQLite file, and read them with Datasette."""

__version__ = "0.1a0"
