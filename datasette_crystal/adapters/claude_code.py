"""Claude Code: the sessions, subagents and prompt history below ``~/.claude``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ..hookspecs import hookimpl
from ..model import (
    PROMPT_KINDS,
    Attachment,
    ConversationMeta,
    Environment,
    FileRecords,
    Parsed,
    ParsedConversation,
    ParsedMessage,
    ScanProblem,
    SourceFile,
    SourceInfo,
    Unreadable,
)
from ..text import count, iso_time
from .claude_branches import abandoned_lines
from .claude_records import SOURCE, Transcript, sample, typed_kind
from .claude_tools import plain
from .jsonl import decode, read_lines, regular_files

#: Claude Code deletes transcripts after so many days unless ``cleanupPeriodDays`` says otherwise.
CLEANUP_DAYS = 30
_MAX_SIDE_FILE = 8 * 1024 * 1024
_MAX_PASTE = 2 * 1024 * 1024


@dataclass(frozen=True)
class _Hints:
    """What ``scan`` tells ``parse``: ``kind`` of the conversation, ``parent`` session of a subagent
    by its directory, ``title`` from ``sessions-index.json``, ``known`` sessions that the prompt
    history need not tell."""

    kind: str
    parent: str | None = None
    title: str | None = None
    known: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Base:
    """A directory of Claude Code (``~/.claude``) and where its transcripts lie."""

    root: Path
    projects: Path


@dataclass(frozen=True)
class _Found:
    path: str
    root: str
    size: int
    mtime_ns: int
    kind: str
    parent: str | None


class ClaudeCode:
    """Reads what Claude Code 1.0.17 to 2.1.332 leaves on disk."""

    name = SOURCE
    display_name = "Claude Code"
    places = "~/.claude, ~/.config/claude, $CLAUDE_CONFIG_DIR"
    parser_version = 1

    def detect(self, env: Environment) -> SourceInfo | None:
        """Counts the transcripts; warns that they will be deleted."""
        bases = _bases(env)
        if not bases:
            return None
        info = SourceInfo(SOURCE, [base.root for base in bases], conversations=0)
        problems: list[tuple[str, OSError]] = []
        found = [file for base in bases for file in _transcripts(base, problems)]
        info.conversations = len({Path(file.path).stem for file in found})
        for root, problem in problems:
            info.unreadable.append(_unreadable(root, problem))
        if found:
            info.oldest = iso_time(min(file.mtime_ns for file in found) / 1e9)
            info.newest = iso_time(max(file.mtime_ns for file in found) / 1e9)
        for base in bases:
            days = _cleanup_days(base.root)
            if days < 3650:
                info.warnings.append(
                    f"Claude Code deletes transcripts in {base.projects} that were not used for"
                    f" {days} days. What is imported stays; to keep the files themselves, set"
                    f' "cleanupPeriodDays": 99999 in {base.root / "settings.json"}.'
                )
        return info

    def scan(self, env: Environment) -> Iterator[ConversationMeta | ScanProblem]:
        """One conversation per session and per subagent file, and one for ``history.jsonl``. Files
        of one name (copied project directories, moved worktrees) are one conversation, the larger
        and newer file first."""
        problems: list[tuple[str, OSError]] = []
        groups: dict[str, list[_Found]] = {}
        titles: dict[str, str] = {}
        bases = _bases(env)
        for base in bases:
            for file in _transcripts(base, problems, titles):
                groups.setdefault(_stem(file.path), []).append(file)
        for root, problem in problems:
            unreadable = _unreadable(root, problem)
            yield ScanProblem(SOURCE, unreadable.path, unreadable.reason, root)
        for stem, files in groups.items():
            files.sort(key=lambda file: (-file.size, -file.mtime_ns, file.path))
            parent = next((file.parent for file in files if file.parent), None)
            title = titles.get(stem)
            yield ConversationMeta(
                SOURCE,
                stem,
                tuple(SourceFile(f.path, f.root, f.size, f.mtime_ns) for f in files),
                f"index title {title}" if title else "",
                _Hints(files[0].kind, parent, title),
            )
        known = frozenset(stem for stem, files in groups.items() if any(f.size for f in files))
        for base in bases:
            path = base.root / "history.jsonl"
            try:
                history = SourceFile.at(path, base.root)
            except FileNotFoundError:
                continue
            except OSError as error:
                yield ScanProblem(SOURCE, str(path), error.strerror or str(error))
                continue
            yield ConversationMeta(
                SOURCE, f"history:{base.root}", (history,), "", _Hints("history", known=known)
            )

    def parse(self, meta: ConversationMeta) -> Parsed:
        """Reads a session with the sidechains inside it, a subagent, or the prompt history. Raises
        :class:`OSError` when no file of it can be read."""
        hints = meta.hints if isinstance(meta.hints, _Hints) else _Hints(_kind_of(meta.session_id))
        if hints.kind == "history":
            return _parse_history(meta, hints)
        return _parse_transcript(meta, hints)


@hookimpl
def register_adapters(register: Any) -> None:
    register(ClaudeCode())


# ------------------------------------------------------------------------------- where files are


def _bases(env: Environment) -> list[_Base]:
    """``CLAUDE_CONFIG_DIR`` replaces ``~/.claude`` (a comma list is what other readers accept);
    some 1.0.x builds wrote to ``~/.config/claude``. A directory that the user names may be such a
    directory, its ``projects``, or a home."""
    candidates: list[Path] = []
    variable = env.variables.get("CLAUDE_CONFIG_DIR")
    for part in (variable or "").split(","):
        part = part.strip()
        if part == "~" or part.startswith(("~/", "~\\")):
            candidates.append(env.home / part[2:])
        elif part:
            candidates.append(Path(part))
    if not candidates:
        candidates = [env.home / ".claude", env.home / ".config" / "claude"]
    bases: list[_Base] = []
    for path in candidates:
        if (path / "projects").is_dir() or (path / "history.jsonl").is_file():
            bases.append(_Base(path, path / "projects"))
    for path in env.roots.get(SOURCE, ()):
        if (path / "projects").is_dir() or (path / "history.jsonl").is_file():
            bases.append(_Base(path, path / "projects"))
        elif (path / ".claude" / "projects").is_dir():
            bases.append(_Base(path / ".claude", path / ".claude" / "projects"))
        elif path.is_dir():
            bases.append(_Base(path, path))
    unique: dict[str, _Base] = {}
    for base in bases:
        unique.setdefault(os.path.realpath(base.projects), base)
    return list(unique.values())


def _stem(path: str) -> str:
    return os.path.basename(path)[: -len(".jsonl")]


def _kind_of(stem: str) -> str:
    return "subagent" if stem.startswith("agent-") else "main"


def _transcripts(
    base: _Base, problems: list[tuple[str, OSError]], titles: dict[str, str] | None = None
) -> Iterator[_Found]:
    """Every session and subagent file below ``projects``; fills ``titles`` from the indexes that
    2.1.x of early 2026 wrote.

    Sessions stand in a project's directory; subagents beside them (2.0.x), or in
    ``<session>/subagents`` and below (2.1.2 and later)."""
    failed: list[OSError] = []
    top = len(base.projects.parts)
    for entry in regular_files(base.projects, problems=failed):
        name = entry.name
        if not name.endswith(".jsonl"):
            if name == "sessions-index.json" and titles is not None:
                _read_index(entry.path, titles)
            continue
        folders = Path(entry.path).parts[top:-1]
        kind, parent = _kind_of(name), None
        if kind == "subagent":
            if "subagents" in folders:
                place = folders.index("subagents")
                parent = folders[place - 1] if place else None
                nested = [part for part in folders[place:] if part.startswith("agent-")]
                parent = nested[-1] if nested else parent
            elif len(folders) > 1:
                continue
        elif len(folders) > 1 or (name == "history.jsonl" and not folders):
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError as error:
            failed.append(error)
            continue
        yield _Found(entry.path, str(base.root), status.st_size, status.st_mtime_ns, kind, parent)
    if not base.projects.is_dir():
        failed = [error for error in failed if not isinstance(error, FileNotFoundError)]
    problems.extend((str(base.root), error) for error in failed)


def _unreadable(root: str, error: OSError) -> Unreadable:
    return Unreadable(os.fspath(error.filename or root), error.strerror or str(error))


def _side_file(path: str | Path) -> Any:
    """A small JSON file beside the transcripts, or ``None``."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > _MAX_SIDE_FILE:
            return None
        with open(path, "rb") as file:
            return orjson.loads(file.read(_MAX_SIDE_FILE))
    except (OSError, ValueError):
        return None


def _cleanup_days(root: Path) -> int:
    settings = _side_file(root / "settings.json")
    days = count(settings.get("cleanupPeriodDays")) if isinstance(settings, dict) else None
    return CLEANUP_DAYS if days is None else days


def _read_index(path: str, titles: dict[str, str]) -> None:
    index = _side_file(path)
    entries = index.get("entries") if isinstance(index, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            session, summary = entry.get("sessionId"), entry.get("summary")
            if isinstance(session, str) and isinstance(summary, str) and summary.strip():
                titles[session] = plain(summary).strip()


# ------------------------------------------------------------------------------- transcripts


class _Agents:
    """Which subagent a tool call of a session started, from the ``meta.json`` files beside the
    subagents; read when first asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.by_call: dict[str, str] | None = None

    def __call__(self, call_id: str) -> str | None:
        if self.by_call is None:
            self.by_call = {}
            for entry in regular_files(self.folder):
                if entry.name.startswith("agent-") and entry.name.endswith(".meta.json"):
                    meta = _side_file(entry.path)
                    call = meta.get("toolUseId") if isinstance(meta, dict) else None
                    if isinstance(call, str):
                        self.by_call[call] = entry.name[: -len(".meta.json")]
        return self.by_call.get(call_id)


def _parse_transcript(meta: ConversationMeta, hints: _Hints) -> Parsed:
    agent = hints.kind == "subagent"
    main = Path(meta.files[0].path)
    folder = main.with_suffix("")
    if agent:
        while folder.name != "subagents" and len(folder.parts) > 1:
            folder = folder.parent
        folder = folder.parent if folder.name == "subagents" else main.parent
    transcript = Transcript(
        meta.session_id, folder, agent=agent, agent_of=_Agents(folder / "subagents")
    )
    if agent:
        side = _side_file(main.with_name(main.name[: -len(".jsonl")] + ".meta.json"))
        transcript.meta = side if isinstance(side, dict) else {}
    files: list[FileRecords] = []
    failure: OSError | None = None
    for file in meta.files:
        try:
            files.append(transcript.read(file.path))
        except OSError as error:
            failure = error
            files.append(FileRecords(file.path, message=f"cannot be read: {error}"))
    if failure is not None and all(file.message for file in files):
        raise failure
    conversations = _conversations(transcript, meta, hints)
    if agent and conversations and _is_warm_up(transcript):
        conversations = []
    if not conversations:
        for records in files:  # nothing of them is kept
            records.ignored, records.kept = records.ignored + records.kept, 0
    return Parsed(conversations, files)


def _is_warm_up(transcript: Transcript) -> bool:
    """2.0.x starts agents that say "ok" to warm the cache: a reply that nobody asked for (2.0.60
    writes no prompt), or one to "Warmup". They are no conversations of anybody."""
    thread = transcript.main
    first = next(iter(thread.messages))
    if first.kind == "task":
        return first.content.strip() == "Warmup"
    return first.kind == "reply" and len(thread.messages) < 3 and not thread.call_count


def _conversations(
    transcript: Transcript, meta: ConversationMeta, hints: _Hints
) -> list[ParsedConversation]:
    thread = transcript.main
    conversation = thread.conversation
    if transcript.agent:
        parent = _text_of(transcript.meta, "parentAgentId") or transcript.parent_agent
        if parent:
            parent = parent if parent.startswith("agent-") else f"agent-{parent}"
        conversation.parent_session_id = parent or hints.parent or transcript.session_of_records
        title = _text_of(transcript.meta, "description")
        if title:
            conversation.title, conversation.title_origin = title, "task"
    else:
        _set_title(transcript, meta, hints)
        if transcript.parent is None and transcript.own_session:
            transcript.parent = transcript.foreign
        if transcript.parent is not None:
            conversation.kind = "fork"
            conversation.parent_session_id = transcript.parent
            conversation.started_at = transcript.own_start
        elif transcript.total_cost is not None:
            conversation.cost_usd = transcript.total_cost
        elif thread.cost > 0:
            conversation.cost_usd = round(thread.cost, 10)
    conversation.project_path = transcript.original_cwd
    if transcript.branched:
        _mark_abandoned(transcript, meta.files[0].path)
    found = []
    for each in (thread, *transcript.sidechains.values()):
        if len(each.messages):
            each.finish()
            found.append(each.conversation)
            if each is not thread:
                each.conversation.cwd = conversation.cwd
                each.conversation.git_branch = conversation.git_branch
                each.conversation.project_path = conversation.project_path
                each.conversation.tool_version = conversation.tool_version
    return found


def _set_title(transcript: Transcript, meta: ConversationMeta, hints: _Hints) -> None:
    """The user's name for the session, else the model's, else a summary: of the session's own
    records (older files hold summaries of other sessions), else of the index."""
    conversation = transcript.main.conversation
    if transcript.custom_title is None:
        side = _side_file(Path(meta.files[0].path).with_suffix("") / "custom-title.json")
        transcript.custom_title = _text_of(side, "customTitle")
    if transcript.custom_title:
        conversation.title, conversation.title_origin = transcript.custom_title, "user"
    elif transcript.ai_title:
        conversation.title, conversation.title_origin = transcript.ai_title, "tool"
    else:
        title = hints.title
        for text, leaf in transcript.summaries:
            if hash(leaf) in transcript.seen:
                title = text.strip()
        if title:
            conversation.title, conversation.title_origin = title, "summary"


def _mark_abandoned(transcript: Transcript, path: str) -> None:
    messages = transcript.main.messages
    prompts = {
        message.record
        for message in messages
        if message.kind in PROMPT_KINDS and message.record is not None
    }
    try:
        dead = abandoned_lines(path, prompts)
    except OSError:
        return
    if dead:
        marked = [
            index
            for index, message in enumerate(messages)
            if message.record in dead and not message.uid.startswith("queue-")
        ]
        for index in marked:
            messages.mark(index, "abandoned")


def _text_of(record: object, key: str) -> str | None:
    value = record.get(key) if isinstance(record, dict) else None
    return plain(value).strip() or None if isinstance(value, str) else None


# ------------------------------------------------------------------------------- prompt history


def _parse_history(meta: ConversationMeta, hints: _Hints) -> Parsed:
    """``history.jsonl``: what was typed at the prompt, also in sessions whose transcript is gone.
    Lines are ``{display, pastedContents, timestamp, project, sessionId}``; the oldest have no
    session and are put together by project."""
    file = meta.files[0]
    records = FileRecords(file.path)
    conversations: dict[str, ParsedConversation] = {}
    used: set[tuple[str, str]] = set()
    pastes = Path(file.path).parent / "paste-cache"
    for number, line in read_lines(file.path):
        values, malformed = decode(line)
        if malformed:
            records.records += 1
            records.malformed += 1
        for record in values:
            records.records += 1
            if not isinstance(record, dict):
                records.malformed += 1
                continue
            display = record.get("display")
            if not isinstance(display, str):
                records.add_unknown(f"line {number + 1}", "history line", sample(record))
                continue
            session = record.get("sessionId")
            project = record.get("project")
            project = plain(project) if isinstance(project, str) and project else None
            if isinstance(session, str) and session:
                session_id = plain(session)
            else:
                session_id = f"history:{project or '?'}"
            if session_id in hints.known or not display.strip():
                records.ignored += 1
                continue
            conversation = conversations.get(session_id)
            if conversation is None:
                conversation = conversations[session_id] = ParsedConversation(
                    SOURCE, session_id, "prompt-history", cwd=project, fidelity="partial"
                )
            conversation.messages.append(
                _history_message(record, plain(display), number, session_id, used, pastes)
            )
            records.kept += 1
    return Parsed(list(conversations.values()), [records])


def _history_message(
    record: dict[str, Any],
    text: str,
    number: int,
    session_id: str,
    used: set[tuple[str, str]],
    pastes: Path,
) -> ParsedMessage:
    time = iso_time(record.get("timestamp"))
    uid = f"typed-{time}" if time else f"line-{number}"
    if (session_id, uid) in used:
        uid = f"{uid}-{number}"
    used.add((session_id, uid))
    kind = "shell" if text.startswith("!") and len(text) > 1 else typed_kind(text)
    message = ParsedMessage(uid, "user", kind, text, timestamp=time, record=number)
    contents = record.get("pastedContents")
    for key, pasted in contents.items() if isinstance(contents, dict) else ():
        if not isinstance(pasted, dict):
            continue
        content = pasted.get("content")
        if not isinstance(content, str):
            content = _pasted(pastes, pasted.get("contentHash"))
        type_ = pasted.get("type")
        name = pasted.get("filename")
        name = name if isinstance(name, str) else f"Pasted text #{key}"
        found = Attachment("image" if type_ == "image" else "pasted-text", plain(name))
        if isinstance(content, str) and found.kind == "pasted-text":
            found.media_type = "text/plain"
            found.content = content.encode("utf-8", "replace")
        message.attachments.append(found)
    return message


def _pasted(folder: Path, digest: object) -> str | None:
    """A long paste by its hash (``paste-cache/<hash>.txt``)."""
    if not isinstance(digest, str) or not digest.isalnum() or len(digest) > 128:
        return None
    path = folder / f"{digest}.txt"
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_PASTE:
            return None
        return plain(path.read_text("utf-8", "replace"))
    except OSError:
        return None
