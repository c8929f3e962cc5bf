"""What an adapter is. See docs/adapters.md for how to write one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from ..model import ConversationMeta, Environment, Parsed, ScanProblem, SourceInfo


@runtime_checkable
class Adapter(Protocol):
    """Reads the conversations of one tool. ``name`` is the id of the source in the database
    (``codex``), ``display_name`` what people call it (``Codex CLI``). A higher ``parser_version``
    makes the importer read every file again."""

    name: str
    display_name: str
    parser_version: int

    def detect(self, env: Environment) -> SourceInfo | None:
        """Is this source on this machine, where, how much of it, and what is unreadable?
        ``None`` when there is no trace of it."""

    def scan(self, env: Environment) -> Iterator[ConversationMeta | ScanProblem]:
        """Identity and change marker of every conversation, cheaply: ``stat`` only for files."""

    def parse(self, meta: ConversationMeta) -> Parsed:
        """Reads a conversation. Bad records are counted, never raised; :class:`OSError` and
        :class:`ValueError` mean that nothing could be read, and become a row in the import log."""
