"""Sample conversations that ship with the package: a small team's six weeks with its tools.

``HOME`` is a home directory with what Claude Code, Codex, GitHub Copilot, Cursor, Cursor's command
line agent, Trae and TRAE CLI keep there, in the tools' own formats; their databases are in
``DATABASES``, as JSON. :func:`sample_home` puts both together. The conversations are invented;
:mod:`.stories` and :mod:`.editor_stories` tell them and :mod:`.build` writes the files.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ..adapters import Adapter
from ..model import ConversationMeta, Environment, Parsed, ScanProblem, SourceInfo, Unreadable
from .databases import assemble

HOME: Path = Path(__file__).parent / "home"
DATABASES: Path = Path(__file__).parent / "databases"
#: Where the sample files stand on the machine of the story.
SHOWN_HOME = "/home/dev"
#: 2026-12-01, when the story is over: every file was last written then.
_WRITTEN = 1_796_083_200


@contextmanager
def sample_home() -> Iterator[Path]:
    """The whole sample home, databases included, in a temporary directory that is deleted after
    use."""
    with tempfile.TemporaryDirectory(prefix="datasette-crystal-") as directory:
        # resolved: what adapters say of files begins with this very path
        home = Path(directory).resolve()
        paths = []
        for source in sorted(HOME.rglob("*")):
            if source.is_file():
                paths.append(home / source.relative_to(HOME))
                paths[-1].parent.mkdir(parents=True, exist_ok=True)
                # Only the bytes: an installed file may be read-only, and a directory, too.
                paths[-1].write_bytes(source.read_bytes())
        paths += [
            assemble(source.read_text("utf-8"), home) for source in sorted(DATABASES.glob("*.json"))
        ]
        for path in paths:
            os.utime(path, (_WRITTEN, _WRITTEN))
        yield home


def shown_at(adapters: Mapping[str, Adapter], home: Path, shown: str) -> dict[str, Adapter]:
    """The same adapters, but they tell of files below ``home`` as if they stood below ``shown``."""
    return {name: _Shown(adapter, home, shown) for name, adapter in adapters.items()}


class _Shown:
    """An adapter that reads in one place and tells of another."""

    def __init__(self, adapter: Adapter, home: Path, shown: str) -> None:
        self.name = adapter.name
        self.display_name = adapter.display_name
        self.parser_version = adapter.parser_version
        self._adapter = adapter
        self._home = str(home)
        self._shown = shown

    def _path(self, path: str) -> str:
        if not path.startswith(self._home):
            return path
        return self._shown + path[len(self._home) :].replace(os.sep, "/")

    def detect(self, env: Environment) -> SourceInfo | None:
        info = self._adapter.detect(env)
        if info is not None:
            info.roots = [Path(self._path(str(root))) for root in info.roots]
            info.unreadable = [
                Unreadable(self._path(item.path), item.reason) for item in info.unreadable
            ]
        return info

    def scan(self, env: Environment) -> Iterator[ConversationMeta | ScanProblem]:
        """The metas have the adapter's own as hints."""
        for found in self._adapter.scan(env):
            if isinstance(found, ScanProblem):
                yield replace(found, path=self._path(found.path), root=self._path(found.root))
                continue
            files = tuple(
                replace(file, path=self._path(file.path), root=self._path(file.root))
                for file in found.files
            )
            yield replace(found, files=files, hints=found)

    def parse(self, meta: ConversationMeta) -> Parsed:
        parsed = self._adapter.parse(meta.hints)
        for records in parsed.files:
            records.path = self._path(records.path)
        return parsed

    def close(self) -> None:
        close = getattr(self._adapter, "close", None)
        if close is not None:
            close()
