"""Redacts and checks many texts, in several processes where there is much to do.

What comes out does not depend on how many there are. Each batch of texts is redacted by somebody who
knows what was known at the start, and nothing else. A text that would teach anything - a new name, a
secret - is handed back, for the one who redacts all of these in their order.
"""

from __future__ import annotations

import io
import pickle
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from .redact import Redactor, is_placeholder
from .scan import OVERLAP, scan_bytes
from .secret_rules import RULES, Rule

#: Bytes of a file that one job looks at.
PART = 4 << 20


class LeftToYou:
    """In place of a redacted text: it teaches something."""


#: A redacted text: ``None`` where it stays as it is, or the new one with what was replaced by kind;
#: then whether it was found to be without secrets, and whether base64 in it is a text.
Redacted = tuple["LeftToYou | tuple[str, dict[str, int]] | None", bool, bool]


class _Helper:
    """Does the work, in whichever process."""

    def __init__(
        self, rules: Sequence[Rule], words: Sequence[str], keep: Sequence[str], key: bytes
    ) -> None:
        self.redactor = Redactor(rules, words=words, keep=keep, key=key)
        self._packed = b""
        self._state: Any = None

    def _know(self, packed: bytes) -> None:
        if packed != self._packed:
            self._packed, self._state = packed, pickle.loads(packed)
            self.redactor.restore(self._state)

    def redact(self, packed: bytes, texts: Sequence[str]) -> list[Redacted]:
        self._know(packed)
        redactor = self.redactor
        results: list[Redacted] = []
        for text in texts:
            changes, decoded = redactor.changes, redactor.decoded
            redactor.counts = Counter()
            redactor.clean.clear()
            new = redactor.redact(text)
            if redactor.changes != changes:
                redactor.restore(self._state)
                results.append((LeftToYou(), False, False))
                continue
            result = None
            if new != text:
                result = new, {kind: count for (_, kind), count in redactor.counts.items()}
            searched = new == text and redactor.is_clean(text)
            results.append((result, searched, redactor.decoded != decoded))
        return results

    def check(self, packed: bytes, texts: Sequence[tuple[str, bool]]) -> list[list[str]]:
        """What is still in texts, by kind. With False beside a text no secrets are searched."""
        self._know(packed)
        redactor = self.redactor
        results = []
        for text, search in texts:
            found = [finding.kind for finding in redactor.findings(text)] if search else []
            if redactor.again(text) != text:
                found.append("name")
            results.append(found)
        redactor.restore(self._state)
        redactor.clean.clear()
        return results

    def scan(self, path: str, start: int, known: Sequence[str]) -> list[tuple[str, str]]:
        """(encoding, kind) of what is in a part of a file, and across its beginning."""
        before = max(0, start - OVERLAP)
        with open(path, "rb") as file:
            file.seek(before)
            data = file.read(start + PART - before)
        keep = self.redactor.keeps_bytes
        return [
            (finding.encoding, finding.kind)
            for finding in scan_bytes(io.BytesIO(data), self.redactor.rules, known=known)
            if not is_placeholder(finding.value) and not keep(finding.value)
        ]


_helper: _Helper


def _start(own: Sequence[Rule] | None, rest: Any) -> None:
    global _helper
    _helper = _Helper((*RULES, *own) if own is not None else (), *rest)


def _do(work: str, *arguments: Any) -> Any:
    return getattr(_helper, work)(*arguments)


class Jobs:
    """``jobs`` processes that help ``redactor``; with one, this process does it. More than one only
    in a program that can be started anew in each of them, see :mod:`multiprocessing`."""

    def __init__(self, redactor: Redactor, jobs: int = 1) -> None:
        self.jobs = max(1, jobs)
        self.redactor = redactor
        self._rest = redactor.own_words, redactor.own_keep, redactor.key
        self._pool: ProcessPoolExecutor | None = None
        self._here: _Helper | None = None

    def _submit(self, work: str, *arguments: Any) -> Future[Any]:
        rules = tuple(self.redactor.rules)
        if self.jobs > 1 and rules[: len(RULES)] == RULES:
            if self._pool is None:
                own = rules[len(RULES) :]
                self._pool = ProcessPoolExecutor(
                    self.jobs, get_context("spawn"), _start, (own, self._rest)
                )
            return self._pool.submit(_do, work, *arguments)
        if self._here is None:
            self._here = _Helper(rules, *self._rest)
        future: Future[Any] = Future()
        future.set_result(getattr(self._here, work)(*arguments))
        return future

    def redact(self, packed: bytes, texts: Sequence[str]) -> Future[list[Redacted]]:
        """Texts as they are redacted by one who knows ``packed``, a pickled state."""
        return self._submit("redact", packed, texts)

    def check(self, packed: bytes, texts: Sequence[tuple[str, bool]]) -> Future[list[list[str]]]:
        """What is found in redacted texts by one who knows ``packed``."""
        return self._submit("check", packed, texts)

    def scan(self, files: Iterable[Path]) -> Iterable[Future[list[tuple[str, str]]]]:
        """What is found in the bytes of files, as (encoding, kind)."""
        known = self.redactor.values
        for file in files:
            for start in range(0, file.stat().st_size, PART):
                yield self._submit("scan", str(file), start, known)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
