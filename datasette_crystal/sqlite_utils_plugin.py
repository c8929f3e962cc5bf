"""``sqlite-utils crystal-import``: the same import, without Datasette."""

from typing import Any

import click
from sqlite_utils import hookimpl

from .cli import import_conversations, import_options


@hookimpl
def register_commands(cli: click.Group) -> None:
    @cli.command(name="crystal-import")
    @import_options
    def crystal_import(**options: Any) -> None:
        """Read the conversations of your AI coding tools into DATABASE.

        The same as `datasette crystal import`: see there.
        """
        import_conversations(**options)
