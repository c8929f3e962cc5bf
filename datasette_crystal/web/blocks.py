"""What a conversation page shows of its messages and tool calls, as plain objects for the template.

No SQL here: rows come in, and what leaves is either plain text, which the template escapes, or
``Markup`` that :mod:`render` made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from ..text import first_line
from . import render
from .numbers import short

#: Characters of an output that are shown: from its beginning, and from its end.
HEAD, TAIL = 4_500, 1_500
#: Characters of a tool's input that are looked at.
MAX_INPUT = 60_000
#: Prompts with more characters or lines are folded.
LONG_PROMPT, LONG_PROMPT_LINES = 4_000, 60
#: Diffs of so few lines stand open.
SHORT_DIFF = 14
#: Images that may be shown; never SVG, which is a document with scripts.
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")

#: How a file of each type begins.
_SIGNATURES = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF....WEBP", re.S)),
)


def image_type(media_type: str | None, content: object) -> str | None:
    """The type of an image that may be shown, by its first bytes. What the database calls it must be
    such a type, and decides nothing else."""
    if media_type not in IMAGE_TYPES or not isinstance(content, bytes):
        return None
    return next((name for name, start in _SIGNATURES if start.match(content)), None)


# --------------------------------------------------------------------------- what a tool does

_FAMILIES: dict[str, tuple[str, str, str]] = {
    # family: (sign, what it is called, names of tools, lower case, without their prefixes)
    "shell": (
        "$",
        "Shell command",
        "bash shell shell_command exec_command exec local_shell run_in_terminal run_terminal_cmd "
        "run_terminal_command run_command container.exec powershell runinterminal write_stdin",
    ),
    "read": (
        "R",
        "Read",
        "read read_file readfile view_files view_file view_image notebookread open_file viewimage",
    ),
    "edit": (
        "E",
        "Edit",
        "edit multiedit write edit_file write_file replacestring apply_patch notebookedit "
        "create_file createfile insert_edit insertedit applypatch search_replace write_to_file "
        "update_file delete_file multireplacestring strreplace editfile",
    ),
    "search": (
        "S",
        "Search",
        "grep glob ls list_dir listdirectory list_directory codebase_search findfiles "
        "findtextinfiles file_search grep_search glob_file_search search search_codebase toolsearch",
    ),
    "web": ("W", "Web", "webfetch websearch web_search web_fetch fetch fetchwebpage"),
    "todo": (
        "T",
        "To-do list",
        "todowrite todo_write update_plan manage_todo_list managetodolist taskcreate taskupdate",
    ),
    "plan": ("P", "Plan", "exitplanmode exit_plan_mode create_plan enterplanmode"),
    "question": (
        "?",
        "Question",
        "askuserquestion request_user_input askquestions ask_question ask_followup_question",
    ),
    "agent": ("A", "Subagent", "agent task spawn_agent task_v2 runsubagent"),
}
_FAMILY = {name: family for family, row in _FAMILIES.items() for name in row[2].split()}
_PREFIX = re.compile(r"^(?:copilot_|vscode_|functions\.|default_api\.|multi_tool_use\.)", re.I)


def family_of(name: str) -> str:
    """What kind of tool this is, by its name in any of the sources; ``other`` for all others."""
    return _FAMILY.get(_PREFIX.sub("", name).lower(), "other")


_STATUS = {
    "error": ("failed", "c-bad"),
    "denied": ("denied", "c-warn"),
    "interrupted": ("interrupted", "c-warn"),
    "pending": ("no result", ""),
}


@dataclass(slots=True)
class Part:
    """A piece of an unfolded tool call."""

    label: str
    html: Markup
    #: What is left out, and where it is.
    note: str = ""


@dataclass(slots=True)
class Badge:
    text: str
    css: str = ""


@dataclass(slots=True)
class Call:
    """A tool call: one line, and what unfolds."""

    id: int
    family: str
    sign: str
    kind: str
    name: str
    what: Markup
    what_title: str
    result: Markup
    badges: list[Badge]
    parts: list[Part]
    failed: bool = False
    open: bool = False
    href: str = ""
    subagent: Mapping[str, Any] | None = None


@dataclass(slots=True)
class Attachment:
    name: str
    kind: str
    size: str
    href: str
    image: str = ""


@dataclass(slots=True)
class Message:
    """A message as the page shows it."""

    position: int
    uid: str
    anchor: str
    permalink: str
    row_href: str
    kind: str
    family: str  # person, agent, model, harness
    label: str
    state: str
    inherited: bool
    timestamp: str | None
    model: str
    html: Markup
    summary: Markup
    folded: bool
    thinking: Markup
    thinking_summary: Markup
    calls: list[Call] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    tokens: str = ""
    open: bool = False
    target: bool = False
    note: str = ""


@dataclass(slots=True)
class Run:
    """Messages in a row that are shown alike: ``label`` says why they are folded, if they are."""

    css: str
    label: str
    messages: list[Message]
    open: bool = False
    href: str = ""


# --------------------------------------------------------------------------- numbers and words


def number(value: float | None) -> str:
    """12,345 / 123 K / 1.2 M."""
    return "" if value is None else short(value)


def size(count: int | None) -> str:
    """A number of bytes as people read it."""
    if count is None:
        return ""
    if count < 1000:
        return f"{count} B"
    if count < 1_000_000:
        return f"{count / 1000:.0f} kB"
    return f"{count / 1e6:.1f} MB"


def duration(milliseconds: int | None) -> str:
    """0.4 s / 12 s / 3 min / 2 h 5 min / 3 days."""
    if milliseconds is None or milliseconds < 0:
        return ""
    seconds = milliseconds / 1000
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} days"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def shorten_path(path: str, cwd: str | None) -> str:
    """A path below the working directory, from there."""
    if cwd and len(cwd) > 1:
        root = cwd.rstrip("/\\")
        if path.startswith(root) and path[len(root) : len(root) + 1] in ("/", "\\"):
            return path[len(root) + 1 :] or path
    return path


# --------------------------------------------------------------------------- tool calls


@dataclass(slots=True)
class Context:
    """What rendering a page needs to know besides the rows."""

    cwd: str | None
    budget: render.Budget
    needle: re.Pattern[str] | None = None

    def mark(self, markup: Markup) -> Markup:
        return render.mark(markup, self.needle)

    def mark_text(self, text: str) -> Markup:
        return render.mark_text(text, self.needle)

    def finds(self, *texts: str | None) -> bool:
        return self.needle is not None and any(self.needle.search(text) for text in texts if text)


def call(
    row: Mapping[str, Any],
    edits: Sequence[Mapping[str, Any]],
    context: Context,
    subagent: Mapping[str, Any] | None = None,
) -> Call:
    """A tool call from its row in ``tool_calls`` (``output`` is its beginning, ``output_end`` its
    end, ``output_length`` how long it is) and its rows in ``file_edits``."""
    name = row["name"]
    family = "agent" if subagent else family_of(name)
    if family == "other" and edits:
        family = "edit"
    sign, kind = _FAMILIES[family][:2] if family in _FAMILIES else (name[:1].upper(), name)
    arguments = _decoded(row["input"])
    output = row["output"] or ""
    badges = _badges(row, family, edits)
    what = _what(name, row["title"], family, arguments, edits, context.cwd)
    made = Call(
        id=row["id"],
        family=family,
        sign=sign or "·",
        kind=kind,
        name=name,
        what=context.mark_text(what),
        what_title=row["title"],
        result=context.mark_text(_result(family, output, row, edits)),
        badges=badges,
        parts=[],
        failed=row["status"] == "error",
        subagent=subagent,
    )
    made.parts = list(_parts(family, row, arguments, edits, context))
    short = edits and sum((edit["diff"] or "").count("\n") for edit in edits) <= SHORT_DIFF
    made.open = (
        family in ("todo", "plan", "question")
        or bool(short and not made.failed)
        or context.finds(row["input"], output)
    )
    return made


def _decoded(text: str | None) -> Any:
    if not text or len(text) > MAX_INPUT:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _badges(row: Mapping[str, Any], family: str, edits: Sequence[Mapping[str, Any]]) -> list[Badge]:
    badges = []
    added = sum(edit["lines_added"] or 0 for edit in edits)
    removed = sum(edit["lines_removed"] or 0 for edit in edits)
    if added:
        badges.append(Badge(f"+{added:,}", "c-good"))
    if removed:
        badges.append(Badge(f"−{removed:,}", "c-bad"))
    if row["status"] in _STATUS:
        badges.append(Badge(*_STATUS[row["status"]]))
    if row["exit_code"]:
        badges.append(Badge(f"exit {row['exit_code']}", "c-bad"))
    quick = 100 if family in ("shell", "web", "agent", "other") else 3_000
    if (row["duration_ms"] or 0) >= quick:
        badges.append(Badge(duration(row["duration_ms"])))
    return badges


def _what(
    name: str,
    title: str,
    family: str,
    arguments: Any,
    edits: Sequence[Mapping[str, Any]],
    cwd: str | None,
) -> str:
    """What the call is about: its command, its file, its question."""
    if edits:
        paths = list(dict.fromkeys(shorten_path(edit["path"], cwd) for edit in edits))
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        return f"{first_line(paths[0])}{more}"
    detail = title.removeprefix(name).removeprefix(": ") if title.startswith(name) else title
    if family == "plan":
        return ""
    if family == "todo":
        items = list(_items(arguments))
        done = sum(item[1] == "done" for item in items)
        return f"{done} of {len(items)} done" if items else detail
    if family == "question":
        questions = _questions(arguments)
        return first_line(str(questions[0].get("question", ""))) if questions else detail
    if isinstance(arguments, dict):
        if family == "search":
            pattern = next(
                (
                    arguments[key]
                    for key in ("pattern", "query", "glob_pattern", "regex")
                    if isinstance(arguments.get(key), str)
                ),
                "",
            )
            if pattern:
                where = arguments.get("path") or arguments.get("glob") or ""
                where = shorten_path(where, cwd) if isinstance(where, str) else ""
                return first_line(f"{pattern} in {where}" if where and where != cwd else pattern)
        if family == "agent" and isinstance(arguments.get("description"), str):
            return first_line(arguments["description"]) or detail
    return shorten_path(detail, cwd)


#: What Codex writes before the output of a command.
_CODEX_HEAD = re.compile(
    r"\A(?:(?:Exit code|Wall time|Chunk ID|Process exited|Process running|Original token count|"
    r"Total output lines)[^\n]*\n)+(?:Output:\n?)?"
)


#: What Claude Code gives the model in place of what a subagent in the background will say.
_LAUNCHED = "Async agent launched"


def _result(
    family: str, output: str, row: Mapping[str, Any], edits: Sequence[Mapping[str, Any]]
) -> str:
    """What came back, in a few words."""
    if family in ("todo", "plan", "question") and row["status"] != "error":
        return ""
    body = _CODEX_HEAD.sub("", render.strip_ansi(output)).strip()
    if row["status"] == "error":
        return first_line(_error_line(body), 160)
    if row["status"] == "denied" or (edits and row["status"] == "ok"):
        return ""
    if row["output_length"] and row["output_length"] > len(output):
        return plural(row["output_length"], "character")
    if family == "agent" and body.startswith(_LAUNCHED):
        return ""
    if not body:
        return "no output" if row["status"] == "ok" and family == "shell" else ""
    lines = body.count("\n") + 1
    if family in ("read", "search"):
        return plural(lines, "line")
    if lines == 1 and len(body) <= 100:
        return body
    if family == "shell":
        return plural(lines, "line")
    return first_line(body, 90)


_TELLING_ERROR = re.compile(r"error|exception|fail|denied|not found|no such|cannot|fatal", re.I)


def _error_line(body: str) -> str:
    """The line of an output that says what went wrong: the last that speaks of an error, among the
    last twenty, else the first."""
    body = re.sub(r"</?tool_use_error>", "", body)
    for line in reversed(body.split("\n")[-20:]):
        if _TELLING_ERROR.search(line[:400]):
            return line
    return body


def _parts(
    family: str,
    row: Mapping[str, Any],
    arguments: Any,
    edits: Sequence[Mapping[str, Any]],
    context: Context,
) -> Iterator[Part]:
    if family == "shell":
        yield from _shell_input(arguments, context)
    elif family == "todo" and (items := list(_items(arguments))):
        yield Part("", context.mark(_list_of(items)))
        explanation = arguments.get("explanation") if isinstance(arguments, dict) else None
        if isinstance(explanation, str) and explanation.strip():
            yield Part("", context.mark(render.markdown(explanation, context.budget)))
    elif (
        family == "plan" and isinstance(arguments, dict) and isinstance(arguments.get("plan"), str)
    ):
        yield Part("", context.mark(_prose(arguments["plan"], context)))
    elif family == "question" and (questions := _questions(arguments)):
        yield Part("", context.mark(_question_list(questions, row["output"] or "")))
    elif any(edit["diff"] for edit in edits):
        pass
    else:
        yield from _input(family, arguments, context)
    for edit in edits:
        if edit["diff"]:
            path = shorten_path(edit["path"], context.cwd)
            shown, note = _cut(edit["diff"], edit["diff_length"])
            label = path if len(edits) > 1 or edit["action"] != "edit" else ""
            if edit["action"] not in ("edit",):
                label = f"{path} ({edit['action']})"
            yield Part(label, context.mark(render.diff(shown)), note)
    output = row["output"] or ""
    quiet = (family in ("todo", "plan") or any(edit["diff"] for edit in edits)) and (
        row["status"] == "ok"
    )
    if output.strip() and not quiet and not (family == "question" and _questions(arguments)):
        yield _output(family, row, context)


def _shell_input(arguments: Any, context: Context) -> Iterator[Part]:
    command = arguments if isinstance(arguments, str) else ""
    rest: dict[str, Any] = {}
    if isinstance(arguments, dict):
        rest = dict(arguments)
        value = next(
            (rest.pop(key) for key in ("command", "cmd", "script", "chars") if key in rest), ""
        )
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            is_script = len(value) == 3 and value[1] in ("-c", "-lc")
            value = value[2] if is_script else " ".join(value)
        command = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if rest.get("description") and isinstance(rest["description"], str):
        description = rest.pop("description")
        yield Part("", context.mark(Markup('<p class="c-about">{}</p>').format(description)))
    if command:
        yield Part("", context.mark(render.code(command, "bash", context.budget)))
    if rest:
        yield Part("", context.mark(_pairs(rest)))


def _input(family: str, arguments: Any, context: Context) -> Iterator[Part]:
    if arguments in (None, "", {}):
        return
    if not isinstance(arguments, dict):
        text = (
            arguments
            if isinstance(arguments, str)
            else json.dumps(arguments, ensure_ascii=False, indent=2)
        )
        shown, note = _cut(text, len(text))
        yield Part("Input", context.mark(render.plain(shown)), note)
        return
    short = {}
    for key, value in arguments.items():
        if isinstance(value, str) and (len(value) > 120 or "\n" in value):
            shown, note = _cut(value, len(value))
            if family == "agent" or key in ("prompt", "message"):
                yield Part(key, context.mark(_prose(shown, context)), note)
            else:
                path = arguments.get("file_path") or arguments.get("path") or ""
                language = render.language_of(path) if isinstance(path, str) else ""
                yield Part(key, context.mark(render.code(shown, language, context.budget)), note)
        else:
            short[key] = value
    if short:
        yield Part("", context.mark(_pairs(short)))


def _pairs(values: Mapping[str, Any]) -> Markup:
    rows = []
    for key, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        rows.append(
            Markup("<dt>{}</dt><dd>{}</dd>").format(key, _cut(text, len(text))[0] or "(empty)")
        )
    return Markup('<dl class="c-pairs">{}</dl>').format(Markup("").join(rows))


def _output(family: str, row: Mapping[str, Any], context: Context) -> Part:
    output = row["output"]
    length = row["output_length"] or len(output)
    whole = length <= len(output)
    if family in ("agent", "plan", "web") and whole:
        shown, note = _cut(output, length)
        return Part("Result", context.mark(_prose(shown, context)), note)
    if whole and len(output) <= 20_000 and output.lstrip()[:1] in "{[":
        pretty = _pretty_json(output)
        if pretty:
            shown, note = _cut(pretty, len(pretty))
            return Part("Result", context.mark(render.code(shown, "json", context.budget)), note)
    shown, note = _cut(output, length, row["output_end"] or "")
    markup = Markup('<pre class="c-output" tabindex="0">{}</pre>').format(render.ansi(shown))
    return Part("Result" if family != "shell" else "Output", context.mark(markup), note)


def _pretty_json(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return ""


def _cut(text: str, length: int, end: str = "") -> tuple[str, str]:
    """The part of a text that is shown, and what to say of the rest. ``text`` may be only the
    beginning of what is ``length`` characters long, and ``end`` its last ones."""
    if length <= HEAD + TAIL and len(text) >= length:
        return text, ""
    tail = end[-TAIL:] if end else text[-TAIL:] if len(text) >= length else ""
    left_out = length - HEAD - len(tail)
    if left_out <= 0:
        return text, ""
    middle = f"\n\n… {plural(left_out, 'character')} left out …\n\n"
    return f"{text[:HEAD]}{middle}{tail}", f"All {plural(length, 'character')}"


def _prose(text: str, context: Context) -> Markup:
    return Markup('<div class="c-prose">{}</div>').format(render.markdown(text, context.budget))


# --------------------------------------------------------------------------- lists and questions


def _items(arguments: Any) -> Iterator[tuple[str, str]]:
    """(text, done | doing | open) of a to-do list or plan."""
    if not isinstance(arguments, dict):
        return
    for key in ("todos", "plan", "todoList", "tasks", "items"):
        entries = arguments.get(key)
        if not isinstance(entries, list):
            continue
        for entry in entries[:500]:
            if isinstance(entry, dict):
                text = next(
                    (
                        entry[part]
                        for part in ("content", "step", "title", "subject", "description", "text")
                        if isinstance(entry.get(part), str)
                    ),
                    "",
                )
                status = str(entry.get("status", "")).lower().replace("-", "_")
                state = (
                    "done"
                    if status in ("completed", "complete", "done")
                    else "doing"
                    if status in ("in_progress", "inprogress", "active")
                    else "open"
                )
                yield text, state
            elif isinstance(entry, str):
                yield entry, "open"
        return


_BOXES = {"done": ("☑", "done"), "doing": ("◐", "in progress"), "open": ("☐", "open")}


def _list_of(items: Sequence[tuple[str, str]]) -> Markup:
    rows = (
        Markup('<li class="c-{}"><span aria-hidden="true">{}</span> {}{}</li>').format(
            state,
            _BOXES[state][0],
            text,
            Markup('<span class="c-sr"> ({})</span>').format(_BOXES[state][1]),
        )
        for text, state in items
    )
    return Markup('<ul class="c-todos">{}</ul>').format(Markup("").join(rows))


def _questions(arguments: Any) -> list[dict[str, Any]]:
    if not isinstance(arguments, dict):
        return []
    questions = arguments.get("questions")
    if isinstance(questions, list):
        return [question for question in questions[:50] if isinstance(question, dict)]
    return [arguments] if isinstance(arguments.get("question"), str) else []


def _question_list(questions: Sequence[Mapping[str, Any]], output: str) -> Markup:
    """Questions with their options, those that were chosen marked, and the answers."""
    answers = _answers(output)
    parts = []
    for question in questions:
        text = str(question.get("question") or question.get("header") or "")
        given = answers.get(str(question.get("id"))) or answers.get(text) or []
        options = list(_options(question.get("options")))
        if len(given) == 1 and given[0] not in [label for label, _ in options]:
            several = given[0].split(", ")  # several choices, as Claude Code writes them
            if set(several) <= {label for label, _ in options}:
                given = several
        rest = list(given)
        rows = []
        for label, about in options:
            chosen = label in given
            rows.append(
                Markup('<li{}><span aria-hidden="true">{}</span> <b>{}</b>{}{}</li>').format(
                    Markup(' class="c-chosen"') if chosen else "",
                    "●" if chosen else "○",
                    label,
                    Markup('<span class="c-sr"> (chosen)</span>') if chosen else "",
                    Markup(' <span class="c-quiet">{}</span>').format(about) if about else "",
                )
            )
            rest = [answer for answer in rest if answer != label]
        parts.append(Markup('<p class="c-question">{}</p>').format(text))
        if rows:
            parts.append(Markup('<ul class="c-options">{}</ul>').format(Markup("").join(rows)))
        parts.extend(Markup('<p class="c-answer">{}</p>').format(answer) for answer in rest)
    if not answers and output.strip():
        parts.append(Markup('<p class="c-answer">{}</p>').format(first_line(output, 2_000)))
    return Markup("").join(parts)


def _options(value: Any) -> Iterator[tuple[str, str]]:
    for option in (value if isinstance(value, list) else [])[:50]:
        if isinstance(option, dict):
            yield (
                str(option.get("label") or option.get("value") or ""),
                str(option.get("description") or ""),
            )
        else:
            yield str(option), ""


_QUOTED_ANSWER = re.compile(r'"([^"\n]{1,2000})"="([^"\n]{0,2000})"')


def _answers(output: str) -> dict[str, list[str]]:
    """Answers by the question or its id, from what the tool gave back."""
    found: dict[str, list[str]] = {}
    data = _decoded(output) if output.lstrip()[:1] == "{" else None
    if isinstance(data, dict):
        answers = data.get("answers", data)
        if isinstance(answers, dict):
            for key, value in answers.items():
                if isinstance(value, dict):
                    value = value.get("answers") or value.get("selected") or value.get("freeText")
                if isinstance(value, str):
                    value = [value]
                if isinstance(value, list):
                    found[key] = [str(answer) for answer in value]
        return found
    for question, answer in _QUOTED_ANSWER.findall(output[:MAX_INPUT]):
        found[question] = [answer]
    return found


# --------------------------------------------------------------------------- messages

_PERSON = {"prompt": "Prompt", "command": "Command", "shell": "Shell", "answer": "Answer"}
_HARNESS = {
    "context": "Context",
    "summary": "Summary",
    "notification": "Notification",
    "interruption": "Interrupted",
    "error": "Error",
    "local-output": "Output",
    "hook": "Hook",
}


def family_of_kind(kind: str) -> str:
    """Whose words a message is: person, agent, model or harness."""
    if kind in _PERSON:
        return "person"
    if kind == "task":
        return "agent"
    return "harness" if kind in _HARNESS else "model"


def label_of_kind(kind: str) -> str:
    return _PERSON.get(kind) or _HARNESS.get(kind) or {"task": "Task"}.get(kind, "Reply")


_SUMMARY_TAG = re.compile(r"<summary>([^<]{1,400})</summary>")
_ANY_TAG = re.compile(r"</?([A-Za-z][\w-]{0,60})[^<>]{0,200}>")


def _harness_line(content: str) -> str:
    """The line that says most of what a harness wrote: what it calls the summary, else the first
    words outside of tags, after the name of the first tag."""
    start = content[:4_000]
    summary = _SUMMARY_TAG.search(start)
    if summary and summary[1].strip():
        return first_line(summary[1], 160)
    tag = _ANY_TAG.match(start.lstrip())
    words = first_line(_ANY_TAG.sub(" ", render.strip_ansi(start)), 120)
    if tag is None or not words:
        return words or first_line(start, 160)
    name = tag[1].replace("_", " ").replace("-", " ")
    return f"{name}: {words}"


def thinking_line(text: str) -> str:
    """The first line of a thought, without Markdown around it."""
    return first_line(text, 110).strip("*#_ ")


def message_body(
    kind: str, title: str, content: str, length: int, context: Context
) -> tuple[Markup, Markup, bool, str]:
    """(HTML, one line that stands for it, whether it is folded, what is left out) of the text of a
    message."""
    note = ""
    if length > len(content):
        note = f"All {plural(length, 'character')}"
    family = family_of_kind(kind)
    line = _harness_line(content) if family == "harness" else first_line(content, 160)
    summary = context.mark_text(line or title)
    if kind in ("local-output", "shell", "command", "interruption"):
        css = "c-output" if kind == "local-output" else "c-plain"
        body = Markup('<pre class="{}">{}</pre>').format(css, render.ansi(content))
    elif kind in ("context", "hook"):
        body = render.plain(content)
    else:
        body = render.markdown(content, context.budget, breaks=family != "model")
    body = context.mark(body)
    if family == "harness":
        short = kind in ("interruption", "error") and length <= 300 and "\n" not in content.strip()
        return body, summary, not short and bool(content.strip()), note
    if family == "model":
        return body, summary, False, note
    long = length > LONG_PROMPT or content.count("\n") > LONG_PROMPT_LINES
    return body, summary, long, note


def tokens(row: Mapping[str, Any]) -> str:
    """What a reply cost in tokens: "1.2k in, 300 out"."""
    read = sum(
        row[name] or 0 for name in ("input_tokens", "cache_read_tokens", "cache_write_tokens")
    )
    parts = []
    if read:
        parts.append(f"{number(read)} in")
    if row["output_tokens"]:
        parts.append(f"{number(row['output_tokens'])} out")
    return " · ".join(parts)


def runs(messages: Sequence[Message], parent_title: str, parent_href: str) -> list[Run]:
    """Messages in runs: those that were taken over from the parent, or that the user left, stand in
    a fold of their own."""
    found: list[Run] = []
    for message in messages:
        css = (
            message.state if message.state != "active" else "inherited" if message.inherited else ""
        )
        if not found or found[-1].css != css:
            found.append(Run(css=css, label="", messages=[]))
        found[-1].messages.append(message)
    for run in found:
        count = plural(len(run.messages), "message")
        if run.css == "inherited":
            of = f" from “{parent_title}”" if parent_title else " from another conversation"
            run.label, run.href = f"{count} taken over{of}", parent_href
        elif run.css == "rolled-back":
            run.label = f"{count} that the user took back"
        elif run.css == "abandoned":
            run.label = f"{count} on a branch that the user left"
        elif run.css:
            run.label = f"{count} no longer in the tool’s own files"
        run.open = run.css == "gone" or any(m.target or m.open for m in run.messages)
    return found
