"""What every table, view and column of crystal.db means, how Datasette shows them by default, and
the saved queries. Plain data, and the three texts that are made of it: the metadata that the plugin
hands to Datasette, ``metadata.yml`` and ``docs/schema.md``.

After a change here: ``python -m datasette_crystal.schema metadata.yml docs/schema.md``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TITLE = "Conversations with AI coding tools"
DESCRIPTION = (
    "Every conversation that AI coding tools left on this machine, in one place. Begin with "
    "conversations; messages holds the text of all of them, with a search box; tool_calls says "
    "what the tools did, and file_edits what they changed."
)


@dataclass(frozen=True)
class Table:
    """A table or view: what it and its columns mean, and how Datasette shows it unless the user
    says otherwise (page ``size``, ``label`` column, default ``facets`` and order)."""

    title: str
    description: str
    columns: Mapping[str, str]
    facets: tuple[str, ...] = ()
    sort: str | None = None
    sort_desc: str | None = None
    size: int | None = None
    label: str | None = None
    hidden: bool = False


@dataclass(frozen=True)
class Query:
    """A saved query. Its SQL is written to be read: people learn the schema from it."""

    title: str
    description: str
    sql: str


# --------------------------------------------------------------------------- tables

_SOURCE = "The tool that the conversation comes from."
_PROJECT = "The project that the conversation worked in."
_CONVERSATION = "The conversation that it belongs to: where it was first written."
_MESSAGE = "The message that it belongs to."
_INPUT = (
    "Input tokens that were neither read from the cache nor written to it. Empty: not recorded."
)
_OUTPUT = "Output tokens, reasoning included."
_CACHE_READ = "Input tokens that were read from the provider's cache."
_CACHE_WRITE = "Input tokens that were written to the provider's cache."
_REASONING = "Output tokens that were spent on reasoning (a part of output_tokens)."

TABLES: dict[str, Table] = {
    "sources": Table(
        "Sources",
        "The AI coding tools that conversations were imported from.",
        {
            "id": "Short name of the tool: claude-code, codex, copilot, cursor, trae.",
            "name": "What people call it.",
        },
        label="name",
    ),
    "projects": Table(
        "Projects",
        "The directories that conversations worked in, one row for each machine and path.",
        {
            "id": "Our number of the project.",
            "name": "Last part of the path.",
            "machine": "Name of the machine, as given at the import.",
            "path": "The directory on that machine, as the tool recorded it.",
            "remote": "Git remote of the repository, where the tool recorded it.",
        },
        facets=("machine",),
        sort="name",
        label="name",
    ),
    "conversations": Table(
        "Conversations",
        "One row for each conversation (a session or thread of a tool). Subagents and forks have "
        "rows of their own and name their parent. Counts and token sums cover the messages that "
        "the conversation owns, so adding them up counts nothing twice.",
        {
            "id": "Our number of the conversation.",
            "title": "Title that the user or the tool gave it, else its first prompt.",
            "source": _SOURCE,
            "project_id": _PROJECT,
            "kind": "main, subagent (started by another conversation), fork (goes on from another "
            "one), review, or prompt-history (only the prompts are left).",
            "model": "The model that it used (the last one that the tool names for it).",
            "started_at": "When it began (UTC).",
            "ended_at": "Time of its last message (UTC).",
            "prompt_count": "Prompts, slash commands and shell commands that a person entered.",
            "message_count": "Messages that it owns.",
            "tool_call_count": "Tool calls in its messages.",
            "error_count": "Tool calls that failed, and error messages of the tool.",
            "inherited_count": "Messages that it shows and another conversation owns.",
            "input_tokens": _INPUT,
            "output_tokens": _OUTPUT,
            "cache_read_tokens": _CACHE_READ,
            "cache_write_tokens": _CACHE_WRITE,
            "reasoning_tokens": _REASONING,
            "cost_usd": "Cost in US dollars, where the source records it.",
            "cost_origin": "Where the cost is from: recorded by the tool.",
            "git_branch": "Git branch at its start.",
            "parent_id": "The conversation that started this one, or that it was forked from.",
            "cwd": "Working directory at its start.",
            "tool_version": "Version of the tool.",
            "machine": "Name of the machine that it was imported on.",
            "title_origin": "Where the title is from: user, tool, summary, first-prompt or task.",
            "session_id": "The id that the tool itself gives the conversation; unique in its source.",
            "parent_session_id": "The tool's id of the parent, also when the parent was not found.",
            "inherits_until": "For a fork that only refers to its parent's history: the first "
            "record of the parent that does not belong to it.",
            "archived": "1 when the user archived it in the tool.",
            "fidelity": "How much of it could be read: complete, partial, metadata-only or "
            "unreadable.",
            "imported_at": "When it was first imported (UTC).",
            "updated_at": "When an import last changed it (UTC).",
            "missing_since": "Since when the tool's own files of it are gone. What was imported "
            "stays.",
        },
        facets=("source", "project_id", "kind", "model"),
        sort_desc="started_at",
        size=50,
        label="title",
    ),
    "messages": Table(
        "Messages",
        "One row for each step of a conversation: thinking, then text, then the tool calls that "
        "followed. A message is stored once, however many files repeat it. The search box looks "
        "in content and thinking.",
        {
            "id": "Our number of the message.",
            "title": "Its first line, or what it did: [Bash] ls -la, [image].",
            "kind": "Whose words they are. A person's: prompt, command, shell, answer. Another "
            "agent's: task. The model's: reply, partial (cut off). The harness's: context, "
            "summary, notification, interruption, error, local-output, hook.",
            "timestamp": "When it was written (UTC). Empty where the source has no time: none is "
            "invented.",
            "conversation_id": _CONVERSATION,
            "role": "user, assistant or system, as the model saw it.",
            "source": _SOURCE,
            "model": "The model that wrote it.",
            "turn": "Number of the prompt that it answers; 0 before the first one.",
            "position": "Its place in the conversation, from 0.",
            "has_code": "1 when its text has a code block.",
            "has_tool_use": "1 when tool calls followed it.",
            "characters": "Length of content in characters.",
            "input_tokens": _INPUT,
            "output_tokens": _OUTPUT,
            "cache_read_tokens": _CACHE_READ,
            "cache_write_tokens": _CACHE_WRITE,
            "reasoning_tokens": _REASONING,
            "vote": "The user's verdict on it, where the tool asks for one.",
            "uid": "The source's id of the message, or its place in the file.",
            "content": "Its text, as Markdown.",
            "thinking": "What the model thought before it, where that is readable.",
        },
        facets=("source", "kind", "role", "model"),
        sort_desc="timestamp",
        size=50,
        label="title",
    ),
    "conversation_messages": Table(
        "Messages of each conversation",
        "Which messages each conversation shows, in order. A fork or resumed copy lists the "
        "messages that it took over; the view transcript joins them.",
        {
            "conversation_id": "The conversation that shows the message.",
            "position": "Place of the message in this conversation, from 0.",
            "message_id": "The message; another conversation may own it.",
            "uid": "The id that this conversation's source gives the message.",
            "state": "active, rolled-back (undone by the user), abandoned (on a branch that the "
            "user left) or gone (no longer in the tool's own files).",
            "origin": "own, copied (the file repeats its parent's message) or referred (the file "
            "only refers to it).",
            "record": "Number of the record that the message begins at in its file.",
        },
        hidden=True,
    ),
    "tool_calls": Table(
        "Tool calls",
        "What the model did: commands that it ran, files that it read and wrote, searches, "
        "subagents that it started, with what it asked for and what it got back.",
        {
            "id": "Our number of the call.",
            "title": "The call in one line: Bash: ls -la.",
            "name": "Name of the tool, as its source calls it.",
            "status": "ok, error, denied (by the user), interrupted, pending (no result in the "
            "file) or unknown.",
            "exit_code": "Exit code of a command, where it is recorded.",
            "started_at": "When it began (UTC).",
            "duration_ms": "How long it took, in milliseconds.",
            "message_id": "The message that made the call.",
            "conversation_id": "The conversation that owns that message.",
            "subagent_id": "The conversation that the call started.",
            "position": "Place of the call in its message, from 0.",
            "call_id": "The source's id of the call; not always unique.",
            "subagent_session_id": "The tool's id of that conversation, also when it was not found.",
            "input": "What was asked for, as JSON.",
            "output": "What came back, as the model got it.",
        },
        facets=("name", "status"),
        sort_desc="started_at",
        size=50,
        label="title",
    ),
    "file_edits": Table(
        "File edits",
        "Changes that tool calls made to files, one row for each file. The tool call itself is "
        "found by message_id and position together.",
        {
            "id": "Our number of the edit.",
            "path": "The file, as the tool call named it.",
            "action": "create, edit, delete or rename.",
            "message_id": "The message whose tool call made the edit.",
            "position": "Place of that tool call in the message.",
            "conversation_id": "The conversation that owns that message.",
            "lines_added": "Lines added, where it is known.",
            "lines_removed": "Lines removed, where it is known.",
            "diff": "The change as a unified diff, where the source has one.",
        },
        facets=("action",),
        sort_desc="id",
        size=50,
        label="path",
    ),
    "attachments": Table(
        "Attachments",
        "What came with messages: images, documents, pasted text, references to files.",
        {
            "id": "Our number of the attachment.",
            "name": "File name, or what it is.",
            "message_id": "The message that it came with.",
            "position": "Its place among the attachments of the message, from 0.",
            "kind": "image, document, text, file ...",
            "media_type": "Such as image/png.",
            "size": "Size in bytes.",
            "sha256": "Hash of the content: equal attachments have equal ones.",
            "content": "The bytes, where the source keeps them.",
        },
        facets=("kind",),
        size=25,
        label="name",
    ),
    "daily_usage": Table(
        "Daily usage",
        "What happened on each day, by source, project and model: made from the other tables at "
        "every import, so that charts need not add up messages. Every column adds up to the "
        "whole; conversations of which only the prompts are left do not count.",
        {
            "day": "The day, in the time zone of the machine that imported; undated for messages "
            "without any time.",
            "source": _SOURCE,
            "project_id": _PROJECT,
            "model": "The model; a prompt counts for the model of its conversation.",
            "conversations": "Conversations that began on this day.",
            "prompts": "Prompts, slash commands and shell commands that a person entered.",
            "replies": "Replies of the model that have text.",
            "tool_calls": "Tool calls.",
            "errors": "Tool calls that failed, and error messages.",
            "input_tokens": _INPUT,
            "output_tokens": _OUTPUT,
            "cache_read_tokens": _CACHE_READ,
            "cache_write_tokens": _CACHE_WRITE,
            "reasoning_tokens": _REASONING,
            "cost_usd": "Cost in US dollars of the conversations that began on this day, where it "
            "is known.",
            "cost_origin": "recorded for conversations whose cost the tool recorded: it covers "
            "their tokens. They have rows of their own.",
        },
        facets=("source", "project_id"),
        sort_desc="day",
    ),
    "source_files": Table(
        "Source files",
        "Every file of the tools that was looked at, also those that gave no conversation. Whether "
        "a file changed is decided from this table alone.",
        {
            "id": "Our number of the file.",
            "source": "The tool that the file belongs to.",
            "machine": "Name of the machine that it was read on.",
            "root": "Directory of the tool that it was found in.",
            "path": "The file.",
            "part": "The conversation inside a file that holds many, else empty.",
            "size": "Size in bytes when it was last read.",
            "mtime_ns": "Modification time when it was last read, in nanoseconds since 1970.",
            "marker": "What else the conversation depends on, such as a title in an index file.",
            "parser_version": "Version of the adapter that read it.",
            "boundary_hash": "Hash of its beginning and end, to tell whether it only grew.",
            "outcome": "imported, skipped, understood (known to hold no conversation), unreadable or error.",
            "skipped_below": "The --min-messages value that it was too short for.",
            "missing_since": "Since when the file is gone (UTC).",
        },
        label="path",
        hidden=True,
    ),
    "resumed_sessions": Table(
        "Resumed sessions",
        "Sessions that go on with another one under a new id (as Claude Code 1.0.35 does): they "
        "are one conversation, which bears the session_id of the first.",
        {
            "source": "The tool that the session belongs to.",
            "session_id": "The tool's id of the session that went on.",
            "conversation_id": "The conversation that it is a part of.",
        },
        hidden=True,
    ),
    "conversation_files": Table(
        "Files of each conversation",
        "Which files each conversation was read from.",
        {"conversation_id": "The conversation.", "source_file_id": "The file."},
        hidden=True,
    ),
    "import_runs": Table(
        "Import runs",
        "One row for each import that changed something.",
        {
            "id": "Our number of the run.",
            "started_at": "When it began (UTC).",
            "ended_at": "When it ended (UTC); empty when it was killed.",
            "version": "Version of datasette-crystal.",
            "machine": "Name of the machine.",
            "timezone": "Time zone of the machine: days in daily_usage are its days.",
            "options": "Options of the import, as JSON.",
        },
        label="started_at",
        hidden=True,
    ),
    "import_log": Table(
        "Import log",
        "What came of every file, with an account of every record in it: records = kept + ignored "
        "+ unknown + malformed. A row is written when the outcome of a file differs from its last "
        "one, so the newest row of a file is how it stands now.",
        {
            "id": "Our number of the row.",
            "run_id": "The import run.",
            "source": "The tool that the file belongs to.",
            "conversation_id": "The conversation that the file gave.",
            "file_path": "The file.",
            "status": "imported, updated, skipped, error or unreadable.",
            "message": "Why, in one line.",
            "records": "Records in the file.",
            "kept_records": "Records of which something is in the conversation.",
            "ignored_records": "Records of types that are known to hold nothing of a conversation.",
            "unknown_records": "Records of types that are not known: see unknown_records.",
            "malformed_records": "Records that are broken.",
            "created_at": "When the row was written (UTC).",
        },
        facets=("status", "source"),
        sort_desc="id",
    ),
    "unknown_records": Table(
        "Unknown records",
        "Samples of records that no adapter knows yet. If you see one that matters, please report "
        "its type.",
        {
            "id": "Our number of the record.",
            "source_file_id": "The file that it stands in.",
            "location": "Where in the file.",
            "type": "Its type, as the file names it.",
            "sample": "How it looks (its beginning).",
        },
        hidden=True,
    ),
    "messages_fts": Table(
        "Word index of messages",
        "Full text of messages: join it by rowid = messages.id.",
        {"content": "Indexes messages.content.", "thinking": "Indexes messages.thinking."},
        hidden=True,
    ),
    "messages_cjk": Table(
        "Character index of messages",
        "Chinese, Japanese and Korean characters of messages, separated by spaces, so that a "
        "phrase of them finds any part of a word. rowid = messages.id.",
        {"text": "The characters (indexed, not stored)."},
        hidden=True,
    ),
    "_sqlite_migrations": Table(
        "Migrations",
        "Which steps of the schema this database has gone through.",
        {
            "id": "Number of the row.",
            "migration_set": "Always crystal.",
            "name": "Name of the step.",
            "applied_at": "When it was taken (UTC).",
        },
        hidden=True,
    ),
}

VIEWS: dict[str, Table] = {
    "transcript": Table(
        "Transcript",
        "Every conversation as it reads: its messages in order, with those that it took over from "
        "another one. Filter by conversation_id; state = active leaves out what the user undid.",
        {
            "conversation_id": "The conversation that shows the message.",
            "position": "Place in this conversation, from 0.",
            "message_id": "The message.",
            "turn": "Number of the prompt that it answers.",
            "role": "user, assistant or system.",
            "kind": "Whose words they are: see messages.",
            "model": "The model that wrote it.",
            "timestamp": "When it was written (UTC).",
            "state": "active, rolled-back, abandoned or gone: see conversation_messages.",
            "inherited": "1 when another conversation owns the message.",
            "title": "Its first line, or what it did.",
            "tool_calls": "Number of tool calls that followed it.",
            "content": "Its text, as Markdown.",
            "thinking": "What the model thought before it.",
        },
        size=50,
    ),
    "prompts": Table(
        "Prompts",
        "Everything that a person typed: prompts, slash commands and shell commands.",
        {
            "message_id": "The message.",
            "timestamp": "When it was written (UTC).",
            "source": _SOURCE,
            "project": "Name of the project.",
            "conversation": "Title of the conversation.",
            "conversation_id": "The conversation.",
            "kind": "prompt, command or shell.",
            "content": "What was typed.",
        },
        sort_desc="timestamp",
        size=50,
    ),
    "failed_tool_calls": Table(
        "Failed tool calls",
        "Tool calls that failed, that the user denied, or that were interrupted.",
        {
            "tool_call_id": "The tool call.",
            "started_at": "When it began (UTC).",
            "name": "Name of the tool.",
            "title": "The call in one line.",
            "status": "error, denied or interrupted.",
            "exit_code": "Exit code of a command.",
            "duration_ms": "How long it took, in milliseconds.",
            "source": _SOURCE,
            "project": "Name of the project.",
            "conversation": "Title of the conversation.",
            "conversation_id": "The conversation.",
            "message_id": "The message that made the call.",
            "output_start": "The first 500 characters that came back.",
        },
        sort_desc="started_at",
        size=50,
    ),
    "file_history": Table(
        "File history",
        "Changes to files with what is around them: when, in which conversation, by which tool. "
        "Filter by path.",
        {
            "path": "The file, as the tool call named it.",
            "timestamp": "When the message was written (UTC).",
            "action": "create, edit, delete or rename.",
            "lines_added": "Lines added, where it is known.",
            "lines_removed": "Lines removed, where it is known.",
            "source": _SOURCE,
            "project": "Name of the project.",
            "conversation": "Title of the conversation.",
            "conversation_id": "The conversation.",
            "message_id": "The message whose tool call made the edit.",
            "tool_call_id": "The tool call.",
            "tool": "Name of the tool.",
            "status": "Whether the call worked: see tool_calls.",
            "diff": "The change as a unified diff.",
        },
        size=50,
    ),
    "tool_stats": Table(
        "Tool statistics",
        "How often each tool was called, and how often it failed.",
        {
            "name": "Name of the tool.",
            "calls": "Calls of it.",
            "ok": "Calls that worked.",
            "errors": "Calls that failed.",
            "denied": "Calls that the user denied.",
            "interrupted": "Calls that were interrupted.",
            "error_percent": "Failed calls in percent of those that worked or failed.",
            "average_duration_ms": "Mean duration, where it is recorded, in milliseconds.",
        },
        sort_desc="calls",
    ),
    "import_health": Table(
        "Import health",
        "How well each source was read: its files, and what became of every record in them, as "
        "they stand now.",
        {
            "source": "Short name of the tool.",
            "name": "What people call it.",
            "files": "Files that were looked at.",
            "missing_files": "Files that the tool has deleted since.",
            "failed_files": "Files that could not be read.",
            "records": "Records in the files.",
            "kept_records": "Records of which something is in a conversation.",
            "ignored_records": "Records that are known to hold nothing of a conversation.",
            "unknown_records": "Records of unknown types.",
            "malformed_records": "Broken records.",
        },
    ),
}

# --------------------------------------------------------------------------- saved queries

QUERIES: dict[str, Query] = {
    "what_did_i_ask_about": Query(
        "What did I ask about …?",
        "Your own prompts that hold these words, newest first.",
        """
select m.timestamp, m.content as prompt, c.title as conversation, p.name as project, m.source,
  m.conversation_id, m.id as message_id
from messages_fts
join messages m on m.id = messages_fts.rowid
join conversations c on c.id = m.conversation_id
left join projects p on p.id = c.project_id
where messages_fts match coalesce(nullif(escape_fts(:words), ''), '""')
  and m.kind in ('prompt', 'command', 'shell')
order by m.timestamp desc
limit 200
""",
    ),
    "what_did_i_ask_in_characters": Query(
        "What did I ask about 数据? (Chinese, Japanese, Korean)",
        "Your own prompts that hold these characters one after the other, newest first.",
        """
with recursive spaced(text, rest) as (
  select '', :characters
  union all
  select text || substr(rest, 1, 1) || ' ', substr(rest, 2) from spaced where rest <> ''
)
select m.timestamp, m.content as prompt, c.title as conversation, p.name as project, m.source,
  m.conversation_id, m.id as message_id
from messages_cjk
join messages m on m.id = messages_cjk.rowid
join conversations c on c.id = m.conversation_id
left join projects p on p.id = c.project_id
where messages_cjk match (
    select '"' || replace(text, '"', '') || '"' from spaced where rest = ''
  )
  and m.kind in ('prompt', 'command', 'shell')
order by m.timestamp desc
limit 200
""",
    ),
    "answers_that_mention": Query(
        "Which answers mention …?",
        "Replies of the model that hold these words, best match first, with the place where.",
        """
select snippet(messages_fts, -1, '»', '«', ' … ', 30) as passage, m.timestamp, m.model,
  c.title as conversation, m.conversation_id, m.id as message_id
from messages_fts
join messages m on m.id = messages_fts.rowid
join conversations c on c.id = m.conversation_id
where messages_fts match coalesce(nullif(escape_fts(:words), ''), '""')
  and m.role = 'assistant'
order by messages_fts.rank
limit 50
""",
    ),
    "prompts_of_a_day": Query(
        "What did I do on …?",
        "Everything that you typed on one day (UTC, such as 2026-11-30).",
        """
select timestamp, project, conversation, content as prompt, source, conversation_id, message_id
from prompts
where timestamp >= :day and timestamp < date(:day, '+1 day')
order by timestamp
""",
    ),
    "read_a_conversation": Query(
        "Read a conversation",
        "One conversation from beginning to end, as it stands: what you undid is left out. "
        "conversation_id is conversations.id.",
        """
select position, timestamp, kind, coalesce(nullif(content, ''), title) as content, thinking,
  tool_calls, message_id
from transcript
where conversation_id = :conversation_id
  and state = 'active'
order by position
""",
    ),
    "subagents_of_a_conversation": Query(
        "Subagents of a conversation",
        "The conversations that a conversation started, and those that they started in turn.",
        """
with recursive family(id, generation) as (
  select id, 0 from conversations where id = :conversation_id
  union
  select child.id, family.generation + 1
  from family join conversations child on child.parent_id = family.id
  where child.kind = 'subagent' and family.generation < 20
)
select family.generation, c.title, c.model, c.started_at, c.prompt_count, c.message_count,
  c.tool_call_count, c.error_count, c.output_tokens, c.id as conversation_id,
  (select t.id from tool_calls t where t.subagent_id = c.id) as tool_call_id
from family join conversations c on c.id = family.id
order by c.started_at
""",
    ),
    "which_conversations_cost_most": Query(
        "Which conversations cost most?",
        "What the tool recorded, else the API list price of their tokens at the price of their "
        "model on the day they began: not your bill. Without a price, such as of a model that is "
        "not known, they come last. Source is optional, such as codex.",
        """
with costs as (
  select id, cost_usd as recorded_usd,
    list_price_usd(model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
      started_at) as list_usd
  from conversations
  where (:source = '' or source = :source)
    and coalesce(cost_usd, input_tokens, output_tokens) is not null
)
select c.title, round(recorded_usd, 2) as recorded_usd, round(list_usd, 2) as list_price_usd,
  c.model, c.source, p.name as project, c.started_at, c.kind, c.input_tokens, c.cache_write_tokens,
  c.cache_read_tokens, c.output_tokens, c.id as conversation_id
from costs join conversations c using (id)
left join projects p on p.id = c.project_id
order by coalesce(recorded_usd, list_usd) desc, c.output_tokens desc
limit 100
""",
    ),
    "longest_conversations": Query(
        "Longest conversations",
        "The conversations with the most messages. Source is optional, such as codex.",
        """
select c.title, c.source, p.name as project, c.started_at,
  round((julianday(c.ended_at) - julianday(c.started_at)) * 24, 1) as hours,
  c.prompt_count, c.message_count, c.tool_call_count, c.output_tokens, c.id as conversation_id
from conversations c left join projects p on p.id = c.project_id
where :source = '' or c.source = :source
order by c.message_count desc
limit 100
""",
    ),
    "tokens_by_project_and_model": Query(
        "Tokens by project and model",
        "Where the tokens went, each model call counted once. Since is optional, such as "
        "2026-11-01.",
        """
select p.name as project, d.model, sum(d.prompts) as prompts, sum(d.tool_calls) as tool_calls,
  sum(d.input_tokens) as input_tokens, sum(d.cache_write_tokens) as cache_write_tokens,
  sum(d.cache_read_tokens) as cache_read_tokens, sum(d.output_tokens) as output_tokens,
  round(sum(d.cost_usd), 2) as recorded_cost_usd
from daily_usage d left join projects p on p.id = d.project_id
where :since = '' or d.day >= :since
group by d.project_id, d.model
order by sum(d.output_tokens) desc
""",
    ),
    "tokens_by_day": Query(
        "Tokens by day",
        "What each day took. Source is optional, such as claude-code.",
        """
select day, sum(conversations) as conversations, sum(prompts) as prompts,
  sum(tool_calls) as tool_calls, sum(input_tokens) as input_tokens,
  sum(cache_write_tokens) as cache_write_tokens, sum(cache_read_tokens) as cache_read_tokens,
  sum(output_tokens) as output_tokens
from daily_usage
where :source = '' or source = :source
group by day
order by day = 'undated', day desc
""",
    ),
    "failed_commands": Query(
        "Failed commands",
        "Commands that ended with an error, newest first. Part of the command is optional, such as "
        "pytest.",
        """
select started_at, title as command, exit_code, output_start, project, conversation,
  conversation_id, message_id
from failed_tool_calls
where status = 'error'
  and name in ('Bash', 'PowerShell', 'shell', 'local_shell', 'shell_command', 'exec_command',
    'run_in_terminal', 'run_terminal_cmd', 'run_terminal_command', 'run_command', 'RunCommand')
  and instr(lower(title), lower(:part))
order by started_at desc
limit 200
""",
    ),
    "tools_and_how_often_they_fail": Query(
        "Most used tools, and how often they fail",
        "Every tool that was called at least ten times.",
        """
select name, calls, errors, error_percent, denied, interrupted, average_duration_ms
from tool_stats
where calls >= 10
order by calls desc
""",
    ),
    "slowest_tool_calls": Query(
        "Slowest tool calls",
        "Where the waiting was.",
        """
with slowest as (
  select id from tool_calls where duration_ms is not null order by duration_ms desc limit 100
)
select round(t.duration_ms / 1000.0, 1) as seconds, t.title, t.status, t.started_at,
  c.title as conversation, t.conversation_id, t.message_id
from slowest join tool_calls t using (id)
join conversations c on c.id = t.conversation_id
order by t.duration_ms desc
""",
    ),
    "what_i_stopped": Query(
        "What I stopped",
        "Tool calls that you denied or interrupted.",
        """
select started_at, status, title, project, conversation, conversation_id, message_id
from failed_tool_calls
where status in ('denied', 'interrupted')
order by started_at desc
limit 200
""",
    ),
    "history_of_a_file": Query(
        "History of a file",
        "Every change to a file, newest first. The end of its path is enough, such as README.md.",
        """
select timestamp, path, action, lines_added, lines_removed, tool, status, project, conversation,
  conversation_id, message_id, diff
from file_history
where substr(path, -length(:path)) = :path
order by timestamp desc
limit 200
""",
    ),
    "most_edited_files": Query(
        "Most edited files",
        "The files that the tools changed most often.",
        """
select path, count(*) as edits, count(distinct conversation_id) as conversations,
  sum(lines_added) as lines_added, sum(lines_removed) as lines_removed
from file_edits
group by path
order by edits desc
limit 100
""",
    ),
    "kept_after_the_tool_deleted_it": Query(
        "Kept after the tool deleted it",
        "Conversations whose files are gone from the tool's own directories.",
        """
select c.title, c.source, p.name as project, c.started_at, c.message_count, c.missing_since,
  c.id as conversation_id
from conversations c left join projects p on p.id = c.project_id
where c.missing_since is not null
order by c.started_at desc
""",
    ),
    "what_could_not_be_read": Query(
        "What could not be read",
        "Files that failed, or that have records which nobody understood: every loss is a row "
        "here.",
        """
with newest as (
  select max(id) as id from import_log group by source, file_path
)
select l.source, l.file_path, l.status, l.message, l.records, l.kept_records, l.unknown_records,
  l.malformed_records, l.created_at, l.conversation_id
from import_log l join newest using (id)
where l.status in ('error', 'unreadable') or l.unknown_records > 0 or l.malformed_records > 0
order by l.status in ('error', 'unreadable') desc, l.unknown_records + l.malformed_records desc
""",
    ),
    "unknown_records_by_type": Query(
        "Unknown records by type",
        "Kinds of records that no adapter knows yet, with a sample of each. Their contents are in "
        "the tool's files and not in this database.",
        """
select f.source, u.type, count(*) as samples, count(distinct u.source_file_id) as files,
  max(u.sample) as sample, max(f.path) as in_file
from unknown_records u join source_files f on f.id = u.source_file_id
group by f.source, u.type
order by files desc
""",
    ),
}

# --------------------------------------------------------------------------- what is made of it


@dataclass(frozen=True)
class _Column:
    name: str
    type: str


@dataclass
class _Structure:
    """What the database itself says: column types, and (column, other table) of foreign keys."""

    columns: dict[str, list[_Column]] = field(default_factory=dict)
    foreign_keys: dict[str, list[tuple[str, str]]] = field(default_factory=dict)


def table_metadata(table: Table) -> dict[str, Any]:
    """How Datasette's metadata says what a :class:`Table` says."""
    metadata: dict[str, Any] = {
        "title": table.title,
        "description": table.description,
        "columns": dict(table.columns),
    }
    if table.facets:
        metadata["facets"] = list(table.facets)
    for key, value in (
        ("sort", table.sort),
        ("sort_desc", table.sort_desc),
        ("size", table.size),
        ("label_column", table.label),
        ("hidden", table.hidden),
    ):
        if value:
            metadata[key] = value
    return metadata


def database_metadata() -> dict[str, Any]:
    """The metadata of one database, without its queries: a new value at every call."""
    return {
        "title": TITLE,
        "description": DESCRIPTION,
        "tables": {name: table_metadata(table) for name, table in (TABLES | VIEWS).items()},
    }


def queries_metadata() -> dict[str, dict[str, Any]]:
    """The saved queries, as Datasette's metadata writes them."""
    return {
        name: {"title": query.title, "description": query.description, "sql": query.sql.strip()}
        for name, query in QUERIES.items()
    }


def metadata_yaml(database: str = "crystal") -> str:
    """The text of ``metadata.yml`` for a database of this name. Datasette 0.65 takes it by ``-m``;
    Datasette 1.0 reads the texts by ``-m`` and the queries by ``-c``: give it to both."""
    import yaml  # type: ignore[import-untyped,unused-ignore]

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: Any, value: str) -> Any:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    metadata = database_metadata() | {"queries": queries_metadata()}
    body = yaml.dump(
        {"databases": {database: metadata}},
        Dumper=Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
    )
    return (
        "# Made from datasette_crystal/schema.py. The plugin applies all of this by itself, "
        "whatever\n# the file is called; this file is a start for your own, or for a server without "
        "the plugin:\n#   Datasette 0.65:  datasette crystal.db -m metadata.yml\n"
        "#   Datasette 1.0:   datasette crystal.db -m metadata.yml -c metadata.yml\n" + body
    )


def _structure() -> _Structure:
    import sqlite3

    from sqlite_utils import Database

    from . import search
    from .migrations import migrations

    connection = sqlite3.connect(":memory:")
    migrations.apply(Database(connection))
    search.build_fts(connection)
    structure = _Structure()
    for name in TABLES | VIEWS:
        structure.columns[name] = [
            _Column(row[1], row[2].lower())
            for row in connection.execute(f'pragma table_info("{name}")')
        ]
        keys: dict[int, list[tuple[str, str]]] = {}
        for row in connection.execute(f'pragma foreign_key_list("{name}")'):
            keys.setdefault(row[0], []).append((row[3], row[2]))
        structure.foreign_keys[name] = sorted(
            (" + ".join(column for column, _ in pairs), pairs[0][1]) for pairs in keys.values()
        )
    connection.close()
    return structure


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _picture(structure: _Structure) -> Iterable[str]:
    yield "```mermaid"
    yield "erDiagram"
    for name, keys in structure.foreign_keys.items():
        for column, other in keys:
            yield f'  {other} ||--o{{ {name} : "{column}"'
    yield "```"


def _section(name: str, table: Table, structure: _Structure) -> Iterable[str]:
    yield f"### {name}"
    yield ""
    yield table.description + (" *Hidden in Datasette's lists.*" if table.hidden else "")
    yield ""
    yield "| column | type | meaning |"
    yield "|---|---|---|"
    leads = {
        column: other
        for column, other in structure.foreign_keys.get(name, ())
        if " + " not in column
    }
    for column in structure.columns[name]:
        to = f" → [{leads[column.name]}](#{leads[column.name]})" if column.name in leads else ""
        meaning = _cell(table.columns[column.name])
        yield f"| {column.name} | {column.type}{to} | {meaning} |"
    yield ""


#: Stands in the generated file, for whoever would edit it.
_MADE_FROM = (
    "<!-- Made from datasette_crystal/schema.py: python -m datasette_crystal.schema "
    "metadata.yml docs/schema.md -->\n"
)


def schema_markdown() -> str:
    """What every table, view, column and saved query is, as Markdown."""
    structure = _structure()
    lines = [
        "# The schema of crystal.db",
        "",
        "One SQLite file. Times are ISO 8601 text in UTC, such as `2026-11-30T21:12:43.109Z`; JSON "
        "is JSON text; `id` is our own number, and what the tool itself calls a conversation is "
        "`session_id`. `pragma application_id` is `0x43525953` (CRYS), whatever the file is called. "
        "A message, and the tokens of a model call, are in the database once, however many files "
        "repeat them.",
        "",
        *_picture(structure),
        "",
        "## Tables",
        "",
    ]
    for name, table in TABLES.items():
        lines += _section(name, table, structure)
    lines += ["## Views", ""]
    for name, view in VIEWS.items():
        lines += _section(name, view, structure)
    lines += [
        "## Who may see what",
        "",
        "Views, full-text indexes and saved queries are shown only to those who may see every table "
        "that they are made of; so does the plugin decide in Datasette. Whoever may run SQL of "
        "their own can read every table all the same: to keep a table from somebody, also set "
        "`allow_sql: false`, and do not offer the file for download.",
        "",
        "## Saved queries",
        "",
        "Datasette lists these on the page of the database. `escape_fts()` is a function of "
        "Datasette; elsewhere give `match` the words themselves. `list_price_usd(model, input_tokens, "
        "output_tokens, cache_read_tokens, cache_write_tokens, time)` is a function of the plugin: "
        "US dollars at the API list prices of the model's maker on the day of `time` (`genai-prices`, "
        "inside the package; nothing is fetched), `null` for a model that has no known price.",
        "",
    ]
    for name, query in QUERIES.items():
        lines += [f"### {query.title}", "", f"`{name}`: {query.description}", ""]
        lines += ["```sql", query.sql.strip(), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: list[str]) -> None:
    """Writes the files that are named: ``.yml`` the metadata, ``.md`` the description."""
    for argument in arguments:
        path = Path(argument)
        path.write_text(
            metadata_yaml() if path.suffix == ".yml" else _MADE_FROM + schema_markdown(),
            encoding="utf-8",
        )


if __name__ == "__main__":
    main(sys.argv[1:])
