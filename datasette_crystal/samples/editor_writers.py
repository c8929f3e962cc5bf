"""Writes chats as the editors keep them: GitHub Copilot in VS Code, Cursor and its command line
agent, Trae. Ids, times and differences come from the story, as in :mod:`.writers`."""

from __future__ import annotations

import base64
import hashlib
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from .databases import Database, blob
from .writers import Record, compact, digest, hunks, iso, milliseconds, utc, uuid4

ITEM_TABLE = "create table ItemTable (key text unique on conflict replace, value blob)"
CURSOR_TABLE = "create table cursorDiskKV (key text unique on conflict replace, value blob)"
HEADS_TABLE = (
    "create table composerHeaders (composerId text primary key, workspaceId text, "
    "createdAt integer, lastUpdatedAt integer, isArchived integer, isSubagent integer, "
    "recency integer, checkpointAt integer, value text)"
)


def storage_id(product: str, folder: str) -> str:
    """The name of a workspace storage: a hash of the folder."""
    return digest(product, folder)[:32]


def storage_path(product: str, folder: str) -> str:
    return f".config/{product}/User/workspaceStorage/{storage_id(product, folder)}"


def workspace_json(folder: str) -> str:
    return compact({"folder": f"file://{folder}"})


class Clock:
    """Time as the story moves it; ids that are always the same."""

    def __init__(self, key: str, start: str) -> None:
        self.key = key
        self.clock = utc(start) + timedelta(milliseconds=int(digest(key)[:4], 16) // 2)
        self.start = milliseconds(self.clock)
        self._count = 0

    @property
    def now(self) -> int:
        return milliseconds(self.clock)

    def tick(self, seconds: float) -> None:
        self._count += 1
        self.clock += timedelta(seconds=seconds, milliseconds=11 * (self._count % 13))

    def id(self, kind: str) -> str:
        self._count += 1
        return uuid4(self.key, kind, self._count)

    def short(self, kind: str, length: int) -> str:
        self._count += 1
        return digest(self.key, kind, self._count)[:length]


def changed(files: dict[str, str], path: str, old: str, new: str) -> tuple[str, str]:
    """Replaces ``old`` in a file of the story; returns the file before and after. A file that is
    not there is made of ``new``."""
    before = files.get(path, "")
    if path in files and before.count(old) != 1:
        raise ValueError(f"{path}: {old!r} stands there {before.count(old)} times")
    after = files[path] = before.replace(old, new) if path in files else new
    return before, after


# ------------------------------------------------------------------------------------- Copilot


def uri(path: str) -> Record:
    """A URI as VS Code serialises it."""
    return {
        "$mid": 1,
        "fsPath": path,
        "external": f"file://{path}",
        "path": path,
        "scheme": "file",
    }


def markdown(text: str, uris: Record | None = None) -> Record:
    value: Record = {
        "value": text,
        "isTrusted": False,
        "supportThemeIcons": False,
        "supportHtml": False,
    }
    if uris is not None:
        value["uris"] = uris
    return value


class Copilot(Clock):
    """One chat session of VS Code. ``log`` writes the mutation log of 1.109 and later, else the
    flat file. Every change of the session goes through :meth:`put`, :meth:`push`."""

    def __init__(
        self,
        key: str,
        cwd: str,
        start: str,
        *,
        log: bool,
        model: str = "claude-sonnet-5-5",
        name: str = "Claude Sonnet 5.5",
        files: dict[str, str] | None = None,
    ) -> None:
        super().__init__(key, start)
        self.cwd = cwd
        self.log = log
        self.model = model
        self.model_name = name
        self.files = {} if files is None else files
        self.session = uuid4("copilot", key)
        self.title = ""
        self.state: Record = {
            "version": 3,
            "creationDate": self.start,
            "initialLocation": "panel",
            "responderUsername": "GitHub Copilot",
            "sessionId": self.session,
            "hasPendingEdits": False,
            "requests": [],
            "pendingRequests": [],
            "inputState": self._input_state(""),
        }
        self.lines: list[Record | str] = [{"kind": 0, "v": deepcopy(self.state)}]
        self.rounds: list[Record] = []
        self.results: Record = {}
        self.waiting: list[Record] = []
        self.began = self.start
        self.completion = 0

    def _input_state(self, text: str) -> Record:
        return {
            "attachments": [],
            "mode": {"id": "agent", "kind": "agent"},
            "selectedModel": {"identifier": f"copilot/{self.model}"},
            "inputText": text,
            "selections": [],
            "contrib": {"chatDynamicVariableModel": []},
        }

    # .. the log

    def _at(self, path: list[str | int]) -> Any:
        value: Any = self.state
        for key in path:
            value = value[key]
        return value

    def put(self, path: list[str | int], value: Any) -> None:
        """Sets a value."""
        self._at(path[:-1])[path[-1]] = value
        self.lines.append({"kind": 1, "k": path, "v": deepcopy(value)})

    def push(self, path: list[str | int], values: list[Any], keep: int | None = None) -> None:
        """Appends to a list, of which the first ``keep`` items stay."""
        target = self._at(path)
        line: Record = {"kind": 2, "k": path, "v": deepcopy(values)}
        if keep is not None and keep < len(target):
            del target[keep:]
            line["i"] = keep
        target += values
        self.lines.append(line)

    @property
    def at(self) -> int:
        """The index of the newest request."""
        return len(self.state["requests"]) - 1

    def text(self) -> str:
        """The file."""
        if self.log:
            return "".join(compact(line) + "\n" for line in self.lines)
        flat = {key: value for key, value in self.state.items() if key != "inputState"}
        flat.update(lastMessageDate=self.now, isImported=False)
        return compact(flat)

    # .. what a person does

    def ask(
        self,
        text: str,
        *,
        wait: float = 60,
        variables: tuple[Record, ...] = (),
        instead: int | None = None,
        agent: str = "github.copilot.editsAgent",
        command: str = "",
    ) -> None:
        """A prompt; ``instead`` of the requests from this index on, which are taken away."""
        self.tick(wait / 2)
        if self.log:
            self.put(["inputState"], self._input_state(text[: len(text) // 2]))
        self.tick(wait / 2)
        self.began = self.now
        parts: list[Record] = [
            {
                "range": {"start": 0, "endExclusive": len(text)},
                "editorRange": {
                    "startLineNumber": 1,
                    "startColumn": 1,
                    "endLineNumber": text.count("\n") + 1,
                    "endColumn": len(text.rpartition("\n")[2]) + 1,
                },
                "text": text,
                "kind": "text",
            }
        ]
        request: Record = {
            "requestId": f"request_{self.id('request')}",
            "message": {"parts": parts, "text": text},
            "variableData": {"variables": list(variables)},
            "timestamp": self.now,
            "agent": {
                "extensionId": {"value": "GitHub.copilot-chat", "_lower": "github.copilot-chat"},
                "extensionVersion": "0.61.0",
                "id": agent,
                "name": "agent",
                "fullName": "GitHub Copilot",
                "isDefault": True,
            },
            "modelId": f"copilot/{self.model}",
            "modeInfo": {"kind": "agent", "isBuiltin": True, "modeId": "agent"},
            "responseId": f"response_{self.id('response')}",
            "response": [],
            "contentReferences": [],
            "codeCitations": [],
            "modelState": {"value": 0},
        }
        if command:
            request["slashCommand"] = {"name": command, "description": ""}
        self.push(["requests"], [request], keep=instead)
        self.rounds, self.results, self.waiting, self.completion = [], {}, [], 0

    def image(self, name: str, data: bytes) -> Record:
        return {
            "kind": "image",
            "id": self.short("image", 12),
            "name": name,
            "value": {"$base64": base64.b64encode(data).decode()},
            "mimeType": "image/png",
            "isURL": False,
            "references": [],
        }

    def file(self, path: str, first: int = 0, last: int = 0) -> Record:
        """An attached file, or a part of it."""
        full = uri(f"{self.cwd}/{path}")
        value: Record = full
        if first:
            value = {
                "uri": full,
                "range": {
                    "startLineNumber": first,
                    "startColumn": 1,
                    "endLineNumber": last,
                    "endColumn": 1,
                },
            }
        name = f"file:{path.rpartition('/')[2]}"
        return {"kind": "file", "id": "vscode.implicit.selection", "name": name, "value": value}

    # .. what the model does

    def step(
        self, *parts: str | Record, think: str = "", seconds: float = 4, calls: list[Record]
    ) -> None:
        """One round: thinking, text with references, tool calls (see :meth:`tool`)."""
        self.tick(seconds)
        shown: list[Record] = []
        round_: Record = {
            "response": "".join(part for part in parts if isinstance(part, str)),
            "toolCalls": [],
            "toolInputRetry": 0,
            "id": self.id("round"),
            "timestamp": self.now,
            "modelId": self.model,
        }
        if think:
            thought = self.short("thought", 24)
            round_["thinking"] = {"id": thought, "text": think, "tokens": len(think) // 4}
            shown.append({"kind": "thinking", "value": think, "id": thought})
            shown.append(
                {
                    "kind": "thinking",
                    "value": "",
                    "id": "",
                    "metadata": {"vscodeReasoningDone": True},
                }
            )
        for part in parts:
            shown.append({**markdown(part)} if isinstance(part, str) else part)
        self.completion += 20 + len(compact(shown)) // 4
        path: list[str | int] = ["requests", self.at, "response"]
        texts = [part for part in shown if "kind" not in part]
        if self.log and texts and shown[-1] is texts[-1] and len(texts[-1]["value"]) > 40:
            # written while it was streamed, then again as a whole
            half = deepcopy(shown)
            half[-1]["value"] = half[-1]["value"][: len(half[-1]["value"]) // 2]
            start = len(self._at(path))
            self.push(path, half)
            self.push(path, shown[-1:], keep=start + len(shown) - 1)
        elif shown:
            self.push(path, shown)
        for call in calls:
            self.tick(call["seconds"])
            self.push(path, call["parts"])
            if call["name"]:
                identity = f"{call['id']}__vscode-{self.start + self._count}"
                round_["toolCalls"].append(
                    {"name": call["name"], "arguments": compact(call["input"]), "id": identity}
                )
                self.results[identity] = {
                    "$mid": 20,
                    "content": [{"$mid": 21, "value": call["output"]}],
                }
                self.completion += len(compact(call["input"])) // 4
        self.rounds.append(round_)

    def end(
        self,
        *parts: str | Record,
        think: str = "",
        vote: int | None = None,
        cancelled: bool = False,
        error: Record | None = None,
        seconds: float = 6,
    ) -> None:
        """The last round, and what VS Code writes when a request is done."""
        if parts:
            self.step(*parts, think=think, seconds=seconds, calls=[])
        at: list[str | int] = ["requests", self.at]
        self.tick(0.2)
        result: Record = {
            "timings": {"firstProgress": 1800, "totalElapsed": self.now - self.began},
            "metadata": {
                "codeBlocks": [],
                "toolCallRounds": self.rounds,
                "toolCallResults": self.results,
                "resolvedModel": self.model,
                "sessionId": self.session,
                "agentId": "github.copilot.editsAgent",
            },
            "details": f"{self.model_name} • 1x",
        }
        if cancelled:
            error = {"message": "Canceled", "code": "canceled", "responseIsIncomplete": True}
        if error:
            result["errorDetails"] = error
        self.put([*at, "result"], result)
        self.put([*at, "followups"], [])
        state = 2 if cancelled else 3 if error else 1
        self.put([*at, "modelState"], {"value": state, "completedAt": self.now})
        if self.completion and not error:
            self.put([*at, "completionTokens"], self.completion)
        self.put([*at, "elapsedMs"], self.now - self.began)
        if vote is not None:
            self.put([*at, "vote"], vote)

    def name(self, title: str) -> None:
        self.title = title
        self.put(["customTitle"], title)

    # .. parts and tools

    def reference(self, path: str) -> Record:
        """A file named in the middle of a sentence."""
        return {"kind": "inlineReference", "inlineReference": uri(f"{self.cwd}/{path}")}

    def tool(
        self,
        name: str,
        tool_id: str,
        given: Record,
        output: str,
        shown: str,
        *,
        special: Record | None = None,
        seconds: float = 0.4,
        confirmed: int = 1,
        more: Record | None = None,
        after: tuple[Record, ...] = (),
        parent: str = "",
    ) -> Record:
        """A tool call: the part that is shown, and the call as the model made it (``name`` is
        empty for those of a subagent, which its rounds do not list)."""
        identity = "toolu_01" + self.short("call", 22)
        part: Record = {
            "kind": "toolInvocationSerialized",
            "invocationMessage": markdown(shown, {}),
            "pastTenseMessage": markdown(shown, {}),
            "isConfirmed": {"type": confirmed},
            "isComplete": True,
            "source": {"type": "internal", "label": "Built-In"},
            **(more or {}),
        }
        if special:
            part["toolSpecificData"] = special
        part.update(toolCallId=identity, toolId=tool_id)
        if parent:
            part["subAgentInvocationId"] = parent
        return {
            "id": identity,
            "name": name,
            "input": given,
            "output": output,
            "parts": [part, *after],
            "seconds": seconds,
        }

    def read(self, path: str, *, parent: str = "") -> Record:
        full = f"{self.cwd}/{path}"
        text = self.files[path]
        where = f"file://{full}"
        linked = markdown(
            f"Read [](file://{full})", {where: {"$mid": 1, "path": full, "scheme": "file"}}
        )
        return self.tool(
            "" if parent else "read_file",
            "copilot_readFile",
            {"filePath": full, "startLine": 1, "endLine": text.count("\n")},
            f"File: `{full}`. Lines 1 to {text.count(chr(10))}:\n```\n{text}```",
            "",
            more={"invocationMessage": linked, "pastTenseMessage": linked},
            parent=parent,
        )

    def search(self, query: str, found: list[tuple[str, int]], *, parent: str = "") -> Record:
        """Text search: (path, line) of what was found."""
        details = [
            {
                "uri": uri(f"{self.cwd}/{path}"),
                "range": {
                    "startLineNumber": line,
                    "startColumn": 1,
                    "endLineNumber": line,
                    "endColumn": 9,
                },
            }
            for path, line in found
        ]
        lines = [f"{path}:{line}" for path, line in found]
        return self.tool(
            "" if parent else "grep_search",
            "copilot_findTextInFiles",
            {"query": query, "isRegexp": True},
            f"{len(found)} matches\n" + "\n".join(lines),
            f"Searched for regex `{query}`, {len(found)} results",
            more={"resultDetails": details},
            parent=parent,
        )

    def edit(self, path: str, old: str, new: str) -> Record:
        """``replace_string_in_file``, or ``create_file`` where there is none yet."""
        full = f"{self.cwd}/{path}"
        creates = path not in self.files
        before, after = changed(self.files, path, old, new)
        edits = []
        if creates:
            range_ = {"startLineNumber": 1, "startColumn": 1, "endLineNumber": 1, "endColumn": 1}
            edits.append({"text": new, "range": range_})
        else:
            lines = after.split("\n")
            for hunk in hunks(before, after):
                # VS Code keeps whole lines: the new text, and where the old lines stood
                head = _unchanged(hunk["lines"])
                tail = _unchanged(hunk["lines"][::-1])
                first = hunk["newStart"] + head
                last = hunk["newStart"] + hunk["newLines"] - tail
                gone = hunk["oldLines"] - head - tail
                start = hunk["oldStart"] + head
                edits.append(
                    {
                        "text": "".join(line + "\n" for line in lines[first - 1 : last - 1]),
                        "range": {
                            "startLineNumber": start,
                            "startColumn": 1,
                            "endLineNumber": start + gone,
                            "endColumn": 1,
                        },
                    }
                )
        group = {
            "kind": "textEditGroup",
            "uri": uri(full),
            "edits": [edits, []],
            "done": True,
            "state": {"sha1": digest(before)[:40], "applied": 0},
        }
        given: Record = {"filePath": full, "content": new}
        if not creates:
            given = {"filePath": full, "oldString": old, "newString": new}
        name = "create_file" if creates else "replace_string_in_file"
        return self.tool(
            name,
            "copilot_createFile" if creates else "copilot_replaceString",
            given,
            f"The following files were successfully edited:\n{full}",
            f"{'Created' if creates else 'Edited'} [](file://{full})",
            after=({"kind": "undoStop", "id": self.short("stop", 16)}, group),
        )

    def terminal(
        self, command: str, output: str, *, code: int = 0, seconds: float = 2, skipped: bool = False
    ) -> Record:
        special: Record = {
            "kind": "terminal",
            "terminalToolSessionId": self.id("terminal"),
            "terminalCommandId": f"tool-{self.id('command')}",
            "commandLine": {"original": command, "isSandboxWrapped": False},
            "cwd": uri(self.cwd),
            "language": "sh",
            "isBackground": False,
        }
        if not skipped:
            special["terminalCommandState"] = {
                "exitCode": code,
                "timestamp": self.now,
                "duration": round(seconds * 1000),
            }
            special["terminalCommandOutput"] = {
                "text": output.replace("\n", "\r\n"),
                "lineCount": output.count("\n") + 1,
            }
        return self.tool(
            "run_in_terminal",
            "run_in_terminal",
            {"command": command, "explanation": "", "goal": "", "mode": "sync"},
            output,
            f"Ran `{command.splitlines()[0]}`",
            special=special,
            seconds=seconds,
            confirmed=5 if skipped else 4,
        )

    def todos(self, *items: tuple[str, str]) -> Record:
        listed = [
            {"id": str(number), "title": title, "status": status}
            for number, (title, status) in enumerate(items, 1)
        ]
        return self.tool(
            "manage_todo_list",
            "manage_todo_list",
            {"todoList": listed},
            "Successfully wrote todo list",
            f"Updated a list of {len(items)} todos",
            special={"kind": "todoList", "todoList": listed},
            seconds=0.1,
        )

    def mcp(
        self, server: str, tool: str, given: Record, output: str, *, error: bool = False
    ) -> Record:
        """A tool of an MCP server."""
        return self.tool(
            f"mcp_{server}_{tool}",
            f"mcp_{server}_{tool}",
            given,
            output,
            f"Ran `{tool}` - {server} (MCP Server)",
            confirmed=3,
            seconds=1.5,
            more={
                "source": {"type": "mcp", "serverLabel": server, "label": server},
                "resultDetails": {
                    "input": compact(given),
                    "output": [{"type": "embed", "isText": True, "value": output}],
                    "isError": error,
                },
            },
        )

    def subagent(self, about: str, prompt: str, result: str) -> Record:
        return self.tool(
            "runSubagent",
            "runSubagent",
            {"description": about, "prompt": prompt},
            result,
            about,
            special={
                "kind": "subagent",
                "description": about,
                "prompt": prompt,
                "agentName": "Explore",
                "result": result,
            },
            seconds=18,
        )


def _unchanged(lines: list[str]) -> int:
    """How many lines of a hunk are unchanged before the first one that is not."""
    return next(number for number, line in enumerate(lines) if line[:1] != " ")


# -------------------------------------------------------------------------------------- Cursor


@dataclass
class Composer(Clock):
    """One chat of Cursor: its row ``composerData``, a row for each bubble, and its head in the
    table ``composerHeaders`` (since 3.12)."""

    key: str
    cwd: str
    begin: str
    title: str
    model: str = "composer-2.5"
    files: dict[str, str] = field(default_factory=dict)
    parent: tuple[str, str] | None = None  # composer, tool call
    archived: bool = False
    bubbles: list[Record] = field(default_factory=list)
    orphans: list[Record] = field(default_factory=list)
    children: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.key, self.begin)
        self.composer = uuid4("cursor", self.key)

    def _bubble(self, type_: int, text: str = "", **fields: Any) -> Record:
        bubble: Record = {
            "_v": 3,
            "type": type_,
            "bubbleId": self.id("bubble"),
            "text": text,
            "createdAt": iso(self.clock),
            "tokenCount": {"inputTokens": 0, "outputTokens": 0},
            "allThinkingBlocks": [],
            "images": [],
            "toolResults": [],
            "unifiedMode": 2,
            "conversationState": "~",
            **fields,
        }
        self.bubbles.append(bubble)
        return bubble

    def prompt(
        self,
        text: str,
        *,
        wait: float = 60,
        images: tuple[str, ...] = (),
        attached: tuple[str, ...] = (),
    ) -> None:
        self.tick(wait)
        root = {
            "children": [
                {"children": [{"text": line, "type": "text"}], "type": "paragraph"}
                for line in text.split("\n")
            ],
            "type": "root",
        }
        self._bubble(
            1,
            text,
            richText=compact({"root": root}),
            modelInfo={"modelName": self.model},
            isAgentic=True,
            context={
                "selectedImages": [
                    {"path": path, "uuid": self.id("image"), "dimension": {"width": 64}}
                    for path in images
                ],
                "fileSelections": [
                    {"uri": uri(f"{self.cwd}/{path}"), "addedWithoutMention": False}
                    for path in attached
                ],
                "folderSelections": [],
                "selections": [],
                "externalLinks": [],
            },
        )

    def think(self, text: str, *, seconds: float = 3) -> None:
        self.tick(seconds)
        self._bubble(
            2,
            thinking={"text": text, "signature": ""},
            thinkingDurationMs=round(seconds * 1000),
            capabilityType=30,
        )

    def say(self, text: str, *, seconds: float = 4, tokens: tuple[int, int] | None = None) -> None:
        self.tick(seconds)
        bubble = self._bubble(2, text, codeBlocks=[])
        if tokens:
            bubble["tokenCount"] = {"inputTokens": tokens[0], "outputTokens": tokens[1]}

    def fail(self, title: str, detail: str) -> None:
        self.tick(1)
        self._bubble(
            2,
            errorDetails={
                "requestId": self.id("request"),
                "error": {
                    "error": 51,
                    "details": {"title": title, "detail": detail, "isRetryable": False},
                },
                "message": detail,
            },
        )

    def summary(self, text: str) -> None:
        """Where the history was summarised."""
        self.tick(3)
        self._bubble(2, text, capabilityType=22)

    def call(
        self,
        name: str,
        given: Record,
        result: Any,
        *,
        status: str = "completed",
        error: str = "",
        rejected: bool = False,
        seconds: float = 1,
    ) -> str:
        """A tool call with its result, in one bubble; returns the call's id."""
        self.tick(seconds)
        identity = "tool_" + self.id("call")
        tool: Record = {
            "tool": 15,
            "toolIndex": 0,
            "toolCallId": identity,
            "status": status,
            "name": name,
            "rawArgs": compact(given),
            "params": compact({**given, "toolCallId": identity}),
            "additionalData": {},
        }
        if result is not None:
            tool["result"] = compact(result)
        if error:
            tool["error"] = compact({"clientVisibleErrorMessage": error})
        if rejected:
            tool["userDecision"] = "rejected"
        self._bubble(2, capabilityType=15, toolFormerData=tool)
        return identity

    def run(self, command: str, output: str, *, code: int = 0, seconds: float = 2) -> None:
        self.call(
            "run_terminal_command_v2",
            {"command": command, "cwd": self.cwd, "isBackground": False},
            {"output": output, "rejected": False, "exitCodeV2": code},
            seconds=seconds,
        )

    def read(self, path: str) -> None:
        self.call(
            "read_file_v2",
            {"targetFile": f"{self.cwd}/{path}"},
            {"contents": self.files[path]},
            seconds=0.3,
        )

    def edit(self, path: str, old: str, new: str) -> None:
        before, after = changed(self.files, path, old, new)
        chunks = [
            {
                "diffString": "\n".join(line[:1] + " " + line[1:] for line in hunk["lines"]),
                "oldStart": hunk["oldStart"],
                "newStart": hunk["newStart"],
                "oldLines": hunk["oldLines"],
                "newLines": hunk["newLines"],
                "linesRemoved": sum(line[:1] == "-" for line in hunk["lines"]),
                "linesAdded": sum(line[:1] == "+" for line in hunk["lines"]),
            }
            for hunk in hunks(before, after)
        ]
        self.call(
            "edit_file_v2",
            {"relativeWorkspacePath": path},
            {"diff": {"chunks": chunks, "editor": "EDITOR_AI"}, "isApplied": True},
            seconds=0.6,
        )

    def todos(self, *items: tuple[str, str]) -> None:
        listed = [
            {"id": str(number), "content": text, "status": status}
            for number, (text, status) in enumerate(items, 1)
        ]
        self.call("todo_write", {"todos": listed, "merge": False}, {"success": True}, seconds=0.1)

    def drop(self, number: int) -> None:
        """The last bubbles were regenerated: their rows stay, the list of headers forgets them."""
        self.orphans += self.bubbles[-number:]
        del self.bubbles[-number:]

    # .. rows

    @property
    def workspace(self) -> Record:
        return {"id": storage_id("Cursor", self.cwd), "uri": uri(self.cwd)}

    def head(self) -> Record:
        head: Record = {
            "type": "head",
            "composerId": self.composer,
            "name": self.title,
            "createdAt": self.start,
            "lastUpdatedAt": self.now,
            "unifiedMode": "agent",
            "isArchived": self.archived,
            "workspaceIdentifier": self.workspace,
        }
        if self.parent:
            head["subagentInfo"] = {
                "parentComposerId": self.parent[0],
                "toolCallId": self.parent[1],
                "subagentTypeName": "explore",
            }
        return head

    def data(self) -> Record:
        data = {
            "_v": 17,
            **{key: value for key, value in self.head().items() if key != "type"},
            "fullConversationHeadersOnly": [
                {"bubbleId": bubble["bubbleId"], "type": bubble["type"]} for bubble in self.bubbles
            ],
            "conversationMap": {},
            "modelConfig": {"modelName": self.model, "maxMode": False},
            "subagentComposerIds": self.children,
            "status": "completed",
            "agentBackend": "cursor-agent",
        }
        return data

    def rows(self) -> list[tuple[str, Any]]:
        """The rows of cursorDiskKV."""
        found: list[tuple[str, Any]] = [(f"composerData:{self.composer}", self.data())]
        found += [
            (f"bubbleId:{self.composer}:{bubble['bubbleId']}", bubble)
            for bubble in [*self.bubbles, *self.orphans]
        ]
        return found


def cursor_databases(composers: list[Composer]) -> list[Database]:
    """The global database, and one of each workspace."""
    root = ".config/Cursor/User"
    rows = [row for composer in composers for row in composer.rows()]
    heads = [
        (
            composer.composer,
            storage_id("Cursor", composer.cwd),
            composer.start,
            composer.now,
            int(composer.archived),
            int(composer.parent is not None),
            composer.now,
            None,
            composer.head(),
        )
        for composer in composers
    ]
    databases = [
        Database(
            f"{root}/globalStorage/state.vscdb",
            "cursor-global",
            {
                ITEM_TABLE: [("cursor.featureStatus", {"dataPrivacyOnboarding": True})],
                CURSOR_TABLE: sorted(rows),
                HEADS_TABLE: heads,
            },
        )
    ]
    for cwd in sorted({composer.cwd for composer in composers}):
        ids = [composer.composer for composer in composers if composer.cwd == cwd]
        selected = {"selectedComposerIds": ids, "lastFocusedComposerIds": ids[:1]}
        databases.append(
            Database(
                f"{storage_path('Cursor', cwd)}/state.vscdb",
                f"cursor-{cwd.rpartition('/')[2]}",
                {ITEM_TABLE: [("composer.composerData", selected)]},
            )
        )
    return databases


# ---------------------------------------------------------------------------------- Cursor CLI


class CursorCli(Clock):
    """One chat of Cursor's command line agent, as the model sees it. A store lists the digests of
    its messages; a transcript has the same messages without times and results."""

    def __init__(self, key: str, cwd: str, start: str, title: str, model: str) -> None:
        super().__init__(key, start)
        self.cwd = cwd
        self.title = title
        self.model = model
        self.chat = uuid4("cursor-cli", key)
        self.messages: list[Record] = []
        self.left: list[Record] = []

    def preamble(self) -> None:
        """What the client tells the model first."""
        self.messages.append(
            {
                "role": "user",
                "content": f"<user_info>\nOS Version: linux 6.17\nShell: bash\nWorkspace Path: {self.cwd}\n"
                f"Today's date: {self.clock:%Y-%m-%d}\n</user_info>",
            }
        )

    def prompt(self, text: str, *, wait: float = 60) -> None:
        self.tick(wait)
        content = f"<timestamp>{iso(self.clock)}</timestamp>\n<user_query>\n{text}\n</user_query>"
        self.messages.append({"role": "user", "content": [{"type": "text", "text": content}]})

    def step(
        self,
        text: str = "",
        *calls: tuple[str, Record, str],
        think: str = "",
        failed: bool = False,
    ) -> None:
        """An answer of the model: thinking, text, calls as (name, arguments, result)."""
        self.tick(5)
        parts: list[Record] = []
        if think:
            parts.append({"type": "reasoning", "text": think})
        if text:
            parts.append({"type": "text", "text": text})
        results = []
        for name, given, output in calls:
            identity = "toolu_01" + self.short("call", 22)
            parts.append(
                {"type": "tool-call", "toolCallId": identity, "toolName": name, "args": given}
            )
            result: Record = {
                "type": "tool-result",
                "toolCallId": identity,
                "toolName": name,
                "result": output,
            }
            if failed:
                result["isError"] = True
            results.append(result)
        self.messages.append({"role": "assistant", "content": parts})
        if results:
            self.messages.append({"role": "tool", "content": results})

    def drop(self, number: int) -> None:
        """The last messages were left: their blobs stay, the root does not list them."""
        self.left += self.messages[-number:]
        del self.messages[-number:]

    @property
    def folder(self) -> str:
        return f".cursor/chats/{hashlib.md5(self.cwd.encode()).hexdigest()}/{self.chat}"

    @property
    def project(self) -> str:
        return ".cursor/projects/" + self.cwd.strip("/").replace("/", "-")

    def store(self) -> tuple[Database, str]:
        """The database, and the text of meta.json."""
        rows: dict[str, bytes] = {}
        root = b""
        for message in self.messages + self.left:
            data = compact(message).encode()
            identity = hashlib.sha256(data).digest()
            rows[identity.hex()] = data
            if message not in self.left:
                root += b"\x0a\x20" + identity  # field 1, 32 bytes
        root_id = hashlib.sha256(root).hexdigest()
        blobs: list[tuple[Any, ...]] = [
            (identity, blob(data)) for identity, data in sorted(rows.items())
        ]
        blobs.append((root_id, blob(root)))
        head = {
            "agentId": self.chat,
            "latestRootBlobId": root_id,
            "name": self.title,
            "mode": "default",
            "createdAt": self.start,
            "lastUsedModel": self.model,
        }
        database = Database(
            f"{self.folder}/store.db",
            f"cursor-cli-{self.key}",
            {
                "create table blobs (id text primary key, data blob)": blobs,
                "create table meta (key text primary key, value text)": [
                    ("0", compact(head).encode().hex())
                ],
            },
        )
        meta = {
            "schemaVersion": 1,
            "createdAtMs": self.start,
            "updatedAtMs": self.now,
            "cwd": self.cwd,
            "title": self.title,
            "hasConversation": True,
        }
        return database, compact(meta)

    def transcript(self) -> list[Record | str]:
        """The lines of a transcript: no results, no thinking."""
        lines: list[Record | str] = []
        for message in self.messages:
            content = message["content"]
            if message["role"] == "tool":
                continue
            if isinstance(content, str):
                content = [{"type": "text", "text": content}]
            shown = []
            for part in content:
                if part["type"] == "reasoning":
                    continue
                if part["type"] == "tool-call":
                    part = {"type": "tool_use", "name": part["toolName"], "input": part["args"]}
                shown.append(part)
            lines.append({"role": message["role"], "message": {"content": shown}})
        lines.append({"type": "turn_ended"})
        return lines


# ---------------------------------------------------------------------------------------- Trae


class Trae(Clock):
    """One session of Trae. In chat mode the answer is ``content``; in builder mode it is the last
    of the plan's steps, and the others are what the agent did."""

    def __init__(self, key: str, start: str, title: str, model: str) -> None:
        super().__init__(key, start)
        self.title = title
        self.model = {"config_name": f"1_-_{model.lower()}", "display_model_name": model}
        self.session = digest("trae", key)[:24]
        self.messages: list[Record] = []
        self.turn = -1
        self.turn_id = ""

    def prompt(self, text: str, *, wait: float = 60, files: tuple[str, ...] = ()) -> None:
        self.tick(wait)
        self.turn += 1
        self.turn_id = self.short("turn", 24)
        self.messages.append(
            {
                "role": "user",
                "content": text,
                "turnIndex": self.turn,
                "turnId": self.turn_id,
                "timestamp": self.now,
                "multiMedia": [],
                "files": [{"path": path} for path in files],
            }
        )

    def _answer(self, **fields: Any) -> None:
        self.messages.append(
            {
                "role": "assistant",
                "turnIndex": self.turn,
                "turnId": self.turn_id,
                "agentMessageId": self.short("message", 24),
                "timestamp": self.now,
                "modelInfo": self.model,
                **fields,
            }
        )

    def chat(self, text: str, *, think: str = "") -> None:
        self.tick(7)
        self._answer(content=text, reasoningContent=think, agentType="chat", status="completed")

    def build(
        self, proposal: str, *steps: Record, think: str = "", final: str, status: str = "completed"
    ) -> None:
        """Builder mode: what it proposed, its steps (see :meth:`step`), and the final words."""
        items = list(steps)
        for step in items:
            self.tick(3)
            step["createdAt"] = self.now
        if final:
            items.append({"toolName": "finish", "thought": final, "status": "completed"})
        self.tick(4)
        self._answer(
            content="",
            agentType="solo_builder",
            status=status,
            agentTaskContent={
                "proposal": proposal,
                "proposalReasoningContent": think,
                "guideline": {"thought": "", "planItems": items},
            },
        )

    def step(
        self, tool: str, given: Record, result: Any, thought: str = "", status: str = "completed"
    ) -> Record:
        return {
            "toolName": tool,
            "thought": thought,
            "status": status,
            "toolCallInfo": {
                "id": "call_" + self.short("call", 20),
                "name": tool,
                "params": given,
                "result": result,
            },
        }

    def value(self) -> Record:
        return {
            "sessionId": self.session,
            "title": self.title,
            "createdAt": self.start,
            "updatedAt": self.now,
            "messages": self.messages,
        }


def trae_database(product: str, cwd: str, sessions: list[Trae], history: list[str]) -> Database:
    """The database of one workspace; ``history`` are prompts that were typed there."""
    value = {
        "list": [session.value() for session in sessions],
        "currentSessionId": sessions[0].session,
    }
    typed = [
        {"inputText": text, "parsedQuery": [text], "multiMedia": [], "files": []}
        for text in history
    ]
    return Database(
        f"{storage_path(product, cwd)}/state.vscdb",
        f"trae-{cwd.rpartition('/')[2]}",
        {
            ITEM_TABLE: [
                ("memento/icube-ai-agent-storage", value),
                ("icube-ai-agent-storage-input-history", typed),
            ]
        },
    )
