"""What the plugin does inside Datasette. Nothing here is imported before Datasette runs."""
