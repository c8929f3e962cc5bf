"""Writes transcripts as Claude Code and Codex write them, for the sample conversations.

Everything is derived from the story: ids from hashes, times from a clock that the story moves, the
diffs from the files as they were before and after. So the same story gives the same bytes.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import json
from binascii import crc32
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any
from zlib import adler32

Record = dict[str, Any]
CLAUDE = "2.1.332"
CODEX = "0.171.0"
#: Dollars for a million tokens: input, output. A cache read costs a tenth of input, a write 1.25.
PRICES = {
    "claude-opus-5-5": (5.0, 25.0),
    "claude-sonnet-5-5": (3.0, 15.0),
    "claude-haiku-5-5": (1.0, 5.0),
}


def dump(records: list[Record | str]) -> str:
    """JSON Lines, compact; a ``str`` stands for a line that is written as it is."""
    return "".join(
        (record if isinstance(record, str) else compact(record)) + "\n" for record in records
    )


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


def uuid4(*parts: object) -> str:
    """A random-looking UUID that is always the same for the same parts."""
    text = digest(*parts)
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:32]}"


def uuid7(moment: datetime, *parts: object) -> str:
    """The same with a time in front, as Codex names its threads."""
    text = digest(*parts)
    stamp = f"{milliseconds(moment):012x}"
    return f"{stamp[:8]}-{stamp[8:]}-7{text[:3]}-9{text[3:6]}-{text[6:18]}"


def milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def utc(text: str) -> datetime:
    """``2026-10-19 08:12`` as a moment."""
    return datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=timezone.utc)


def iso(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def hunks(before: str, after: str) -> list[dict[str, Any]]:
    """The difference of two texts as Claude Code keeps it in ``structuredPatch``."""
    old, new = before.splitlines(), after.splitlines()
    result = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(3):
        lines: list[str] = []
        for tag, first, last, start, stop in group:
            if tag == "equal":
                lines += [" " + line for line in old[first:last]]
            else:
                lines += ["-" + line for line in old[first:last]]
                lines += ["+" + line for line in new[start:stop]]
        i, j = group[0][1], group[-1][2]
        k, m = group[0][3], group[-1][4]
        result.append(
            {
                "oldStart": i + 1 if j > i else 0,
                "oldLines": j - i,
                "newStart": k + 1 if m > k else 0,
                "newLines": m - k,
                "lines": lines,
            }
        )
    return result


def unified(before: str, after: str) -> str:
    """The same as the text of a unified diff without file headers."""
    parts = []
    for hunk in hunks(before, after):
        parts.append(
            "@@ -{oldStart},{oldLines} +{newStart},{newLines} @@".format(**hunk)
            + "\n"
            + "\n".join(hunk["lines"])
        )
    return "\n".join(parts) + "\n"


def png(rows: list[str], colours: dict[str, str], scale: int = 4) -> bytes:
    """A picture from text, one letter a pixel; ``colours`` gives each letter ``rrggbb``. Written
    without compression, so that it is the same bytes with every zlib."""
    letters = list(colours)
    width, height = len(rows[0]) * scale, len(rows) * scale
    data = bytearray()
    for row in rows:
        pixels = [letters.index(letter) for letter in row for _ in range(scale)]
        packed = bytes(
            (pixels[at] << 4) | (pixels[at + 1] if at + 1 < width else 0)
            for at in range(0, width, 2)
        )
        data += (b"\0" + packed) * scale
    stream = bytearray(b"\x78\x01")
    for start in range(0, len(data), 65535):
        block = data[start : start + 65535]
        stream.append(1 if start + 65535 >= len(data) else 0)
        stream += len(block).to_bytes(2, "little") + (65535 - len(block)).to_bytes(2, "little")
        stream += block
    stream += adler32(data).to_bytes(4, "big")

    def chunk(name: bytes, content: bytes) -> bytes:
        return (
            len(content).to_bytes(4, "big")
            + name
            + content
            + crc32(name + content).to_bytes(4, "big")
        )

    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes((4, 3, 0, 0, 0))
    palette = b"".join(bytes.fromhex(colour) for colour in colours.values())
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"PLTE", palette)
        + chunk(b"IDAT", bytes(stream))
        + chunk(b"IEND", b"")
    )


# --------------------------------------------------------------------------------- Claude Code


@dataclass
class Call:
    """A tool call with its result. ``result`` is Claude Code's structured form of it; ``extra``
    are further fields of the result's record; ``answered`` is false where no result came."""

    name: str
    input: dict[str, Any]
    output: Any = ""
    error: bool = False
    result: Any = None
    seconds: float = 1.0
    extra: dict[str, Any] = field(default_factory=dict)
    answered: bool = True


class Claude:
    """One session file of Claude Code. ``files`` are the project's files as far as the story
    knows them: editing tools change them and tell the difference."""

    def __init__(
        self,
        key: str,
        cwd: str,
        start: str,
        *,
        model: str = "claude-sonnet-5-5",
        branch: str = "main",
        version: str = CLAUDE,
        files: dict[str, str] | None = None,
        agent: str | None = None,
        session: str | None = None,
    ) -> None:
        self.key = key
        self.cwd = cwd
        self.clock = utc(start) + timedelta(milliseconds=int(digest(key)[:4], 16) // 2)
        self.model = model
        self.branch = branch
        self.version = version
        self.files = {} if files is None else files
        self.agent = agent
        self.session = session or uuid4("claude", key)
        self.records: list[Record | str] = []
        self.history: list[Record] = []
        self.leaf: str | None = None
        self.last_prompt = ""
        self.turn_began = self.clock
        self.context = 24_000
        self.prompts = 0
        self.usage: dict[str, list[int]] = {}
        self._count = 0
        if not agent:
            self.bare("mode", mode="normal")
            self.bare("permission-mode", permissionMode="default")

    # .. plumbing

    def tick(self, seconds: float) -> None:
        self.clock += timedelta(seconds=seconds, milliseconds=7 * (self._count % 11))

    def id(self, kind: str = "line") -> str:
        self._count += 1
        return uuid4(self.key, kind, self._count)

    def short(self, kind: str, length: int = 24) -> str:
        self._count += 1
        return digest(self.key, kind, self._count)[:length]

    def bare(self, type_: str, **fields: Any) -> None:
        """A record without uuid, outside the chain."""
        self.records.append({"type": type_, **fields, "sessionId": self.session})

    def raw(self, line: str) -> None:
        """A line that is not a record of Claude Code at all."""
        self.records.append(line)

    def chained(self, type_: str, **fields: Any) -> str:
        """A record with a uuid at the end of the chain; returns the uuid."""
        uuid = self.id()
        record: Record = {"parentUuid": self.leaf, "isSidechain": self.agent is not None}
        if self.agent:
            record["agentId"] = self.agent
        record.update(fields)
        record["type"] = type_
        record["uuid"] = uuid
        record["timestamp"] = iso(self.clock)
        record.update(
            userType="external",
            cwd=self.cwd,
            sessionId=self.session,
            version=self.version,
            gitBranch=self.branch,
        )
        self.records.append(record)
        self.leaf = uuid
        return uuid

    def attachment(self, type_: str, rendered: str = "", **fields: Any) -> None:
        more: dict[str, Any] = {}
        if rendered:
            more = {
                "rendered": [{"content": f"<system-reminder>\n{rendered}\n</system-reminder>"}],
                "renderedRole": "user",
            }
        self.chained("attachment", attachment={"type": type_, **fields}, **more)

    def system(self, subtype: str, **fields: Any) -> None:
        self.chained("system", subtype=subtype, isMeta=False, **fields)

    def _history(self, text: str, pasted: dict[str, Any] | None = None) -> None:
        if not self.agent:
            self.history.append(
                {
                    "display": text,
                    "pastedContents": pasted or {},
                    "timestamp": milliseconds(self.clock),
                    "project": self.cwd,
                    "sessionId": self.session,
                }
            )

    # .. what a person does

    def prompt(
        self,
        text: str,
        *,
        wait: float = 60,
        images: tuple[bytes, ...] = (),
        pasted: str = "",
    ) -> str:
        """A prompt typed after ``wait`` seconds; returns its uuid."""
        self.tick(wait)
        self.turn_began = self.clock
        self._history(
            text + (f" [Pasted text #1 +{pasted.count(chr(10))} lines]" if pasted else ""),
            {"1": {"id": 1, "type": "text", "content": pasted}} if pasted else None,
        )
        full = text
        if pasted:
            full += f'\n<pasted_content id="1">\n{pasted}\n</pasted_content>'
        content: Any = full
        more: dict[str, Any] = {}
        if images:
            content = [{"type": "text", "text": full}] if full else []
            for image in images:
                source = {
                    "type": "base64",
                    "media_type": "image/png",
                    "data": base64.b64encode(image).decode(),
                }
                content.append({"type": "image", "source": source})
            more["imagePasteIds"] = list(range(1, len(images) + 1))
        self.last_prompt = text
        return self._person(content, **more)

    def _person(self, content: Any, **more: Any) -> str:
        self.prompts += 1
        self.bare_snapshot()
        uuid = self.chained(
            "user",
            promptId=self.id("prompt"),
            message={"role": "user", "content": content},
            **more,
            permissionMode="default",
            origin={"kind": "human"},
            promptSource="typed",
            turnOrigin="human",
        )
        if self.prompts == 1:
            self.opening()
        return uuid

    def bare_snapshot(self) -> None:
        """Claude Code notes which files it could restore; one such record is enough here."""
        if self.prompts > 1:
            return
        message = uuid4(self.key, "line", self._count + 2)
        self.records.append(
            {
                "type": "file-history-snapshot",
                "messageId": message,
                "snapshot": {
                    "messageId": message,
                    "trackedFileBackups": {},
                    "timestamp": iso(self.clock),
                },
                "isSnapshotUpdate": False,
            }
        )

    def opening(self) -> None:
        """What Claude Code tells the model at the start of a session."""
        self.attachment(
            "environment",
            snapshot={"workingDirectory": self.cwd, "isGitRepo": True, "platform": "linux"},
        )
        name = self.model.removeprefix("claude-").split("-")[0].title()
        self.attachment(
            "model",
            identity={"modelId": self.model, "marketingName": f"{name} 5.5"},
            text=f"You are powered by the model named {name} 5.5.",
        )
        self.attachment("date", date=f"{self.clock:%Y-%m-%d}")

    def shell(self, command: str, stdout: str, stderr: str = "", *, wait: float = 30) -> None:
        """``!command``"""
        self.tick(wait)
        self._history("!" + command)
        self.bare_snapshot()
        message = {"role": "user", "content": f"<bash-input>{command}</bash-input>"}
        self.chained("user", promptId=self.id("prompt"), message=message)
        self.tick(0.4)
        text = f"<bash-stdout>{stdout}</bash-stdout><bash-stderr>{stderr}</bash-stderr>"
        self.chained("user", promptId=self.id("prompt"), message={"role": "user", "content": text})

    def command(self, name: str, args: str, expansion: str, *, wait: float = 40) -> None:
        """A slash command that becomes a prompt of its own."""
        self.tick(wait)
        self.turn_began = self.clock
        self._history(f"/{name} {args}".rstrip())
        self.last_prompt = f"/{name} {args}".rstrip()
        text = (
            f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>\n"
            f"<command-args>{args}</command-args>"
        )
        self.prompts += 1
        self.bare_snapshot()
        prompt = self.id("prompt")
        self.chained(
            "user",
            promptId=prompt,
            message={"role": "user", "content": text},
            origin={"kind": "human"},
        )
        self.chained(
            "user",
            promptId=prompt,
            message={"role": "user", "content": [{"type": "text", "text": expansion}]},
            isMeta=True,
            turnCompanion=True,
        )

    def local(self, name: str, args: str, output: str, *, wait: float = 20) -> None:
        """A slash command that Claude Code answers itself."""
        self.tick(wait)
        self._history(f"/{name} {args}".rstrip())
        space = "\n            "
        self.system(
            "local_command",
            content=f"<command-name>/{name}</command-name>{space}<command-message>{name}"
            f"</command-message>{space}<command-args>{args}</command-args>",
            level="info",
        )
        self.tick(0.1)
        self.system(
            "local_command",
            content=f"<local-command-stdout>{output}</local-command-stdout>",
            level="info",
            commandRun={"command": name, "args": args},
        )

    def rename(self, title: str, *, wait: float = 20) -> None:
        self.bare("custom-title", customTitle=title)
        self.bare("agent-name", agentName=title)
        self.local("rename", title, f"Session renamed to: {title}", wait=wait)

    def queued(self, text: str, *, wait: float = 2) -> None:
        """A prompt typed while the model works."""
        self.tick(wait)
        self._history(text)
        self.bare("queue-operation", operation="enqueue", timestamp=iso(self.clock), content=text)
        typed = iso(self.clock)
        self.tick(3)
        self.bare(
            "queue-operation",
            operation="remove",
            timestamp=iso(self.clock),
            content=text,
            reason="absorbed_mid_turn",
        )
        self.attachment(
            "queued_command",
            prompt=text,
            source_uuid=self.id("queued"),
            commandMode="prompt",
            origin={"kind": "human"},
            timestamp=typed,
            humanTurn=True,
        )

    # .. what the model does

    def step(
        self,
        text: str = "",
        *calls: Call,
        think: str = "",
        seconds: float = 4,
        cut: bool = False,
    ) -> None:
        """One answer of the model: thinking, text, calls and their results, in one message id and
        on as many lines as there are blocks. ``cut``: the person stopped it in the middle."""
        self.tick(seconds)
        message = "msg_01" + self.short("message", 22)
        blocks: list[Record] = []
        if think:
            signature = base64.b64encode(bytes.fromhex(digest(self.key, think))).decode()
            blocks.append({"type": "thinking", "thinking": think, "signature": signature})
        if text:
            blocks.append({"type": "text", "text": text})
        ids = []
        for call in calls:
            ids.append("toolu_01" + self.short("call", 22))
            blocks.append(
                {"type": "tool_use", "id": ids[-1], "name": call.name, "input": call.input}
            )
        output = max(9, sum(len(compact(block)) for block in blocks) // 4)
        thought = len(think) // 4
        fresh = 3 + len(self.last_prompt) // 4 if not self.usage.get(message) else 3
        written = output // 2 + 900
        usage = {
            "input_tokens": fresh,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": self.context,
            "output_tokens": output,
            "output_tokens_details": {"thinking_tokens": thought},
        }
        self._count_usage(fresh, written, self.context, output)
        self.context += written + output
        lines = []
        for index, block in enumerate(blocks):
            self.chained(
                "assistant",
                message={
                    "id": message,
                    "type": "message",
                    "role": "assistant",
                    "model": self.model,
                    "content": [block],
                    "stop_reason": None if cut else "tool_use" if calls else "end_turn",
                    "stop_sequence": None,
                    "usage": usage,
                },
                apiBlockIndex=index,
                **({"isAbortedMidStream": True} if cut else {}),
            )
            lines.append(self.leaf)
            self.tick(0.3)
        first_call = len(blocks) - len(calls)
        for call, identity, line in zip(calls, ids, lines[first_call:], strict=True):
            if not call.answered:
                continue
            self.tick(call.seconds)
            result: Record = {
                "tool_use_id": identity,
                "type": "tool_result",
                "content": call.output,
            }
            if call.error:
                result["is_error"] = True
            fields: Record = {"message": {"role": "user", "content": [result]}}
            if call.result is not None and not self.agent:
                fields["toolUseResult"] = call.result
            fields["sourceToolAssistantUUID"] = line
            fields.update(call.extra)
            self.chained("user", **fields)
            self.context += len(compact(call.output)) // 4

    def _count_usage(self, *counts: int) -> None:
        total = self.usage.setdefault(self.model, [0, 0, 0, 0])
        for index, number in enumerate(counts):
            total[index] += number

    def end_turn(self) -> None:
        """The records at the end of a turn."""
        self.tick(0.2)
        self.system(
            "turn_duration",
            durationMs=milliseconds(self.clock) - milliseconds(self.turn_began),
            messageCount=len(self.records),
        )
        self.bare("last-prompt", lastPrompt=self.last_prompt, leafUuid=self.leaf)

    def answer(self, text: str, *, think: str = "", seconds: float = 9) -> None:
        """The last answer of a turn."""
        self.step(text, think=think, seconds=seconds)
        self.end_turn()

    def interrupt(self, for_tool: bool = False) -> None:
        self.tick(0.1)
        text = f"[Request interrupted by user{' for tool use' if for_tool else ''}]"
        more: Record = {}
        last = self.records[-1]
        if isinstance(last, dict) and last["type"] == "assistant":
            more["interruptedMessageId"] = last["message"]["id"]
        self.chained(
            "user",
            message={"role": "user", "content": [{"type": "text", "text": text}]},
            **more,
        )

    def retry(self, status: int, name: str, attempt: int) -> None:
        """An API error after which the request is sent again."""
        self.tick(1)
        self.system(
            "api_error",
            level="error",
            error={
                "message": f"{status} {name}",
                "status": status,
                "formatted": f"{status} {name}",
            },
            retryInMs=600 * 2**attempt,
            retryAttempt=attempt,
            maxRetries=10,
        )

    def api_error(self, text: str, status: int) -> None:
        """An API error that ended the turn."""
        self.tick(2)
        self.chained(
            "assistant",
            message={
                "id": self.id("synthetic"),
                "model": "<synthetic>",
                "role": "assistant",
                "type": "message",
                "content": [{"type": "text", "text": text}],
            },
            error="unknown",
            isApiErrorMessage=True,
            apiErrorStatus=status,
        )
        self.end_turn()

    def compact(self, args: str, summary: str, *, wait: float = 30) -> None:
        """``/compact``: the model goes on with a summary."""
        self.tick(wait)
        self._history(f"/compact {args}".rstrip())
        before = self.context
        self.context = 14_000 + len(summary) // 4
        logical, self.leaf = self.leaf, None
        self.tick(21)
        self.system(
            "compact_boundary",
            logicalParentUuid=logical,
            content="Conversation compacted",
            level="info",
            compactMetadata={
                "trigger": "manual",
                "preTokens": before,
                "postTokens": self.context,
                "durationMs": 21_400,
            },
        )
        text = (
            "This session is being continued from a previous conversation that ran out of "
            "context. The summary below covers the earlier portion of the conversation.\n\n"
            f"Summary:\n{summary}"
        )
        self.chained(
            "user",
            message={"role": "user", "content": text},
            isVisibleInTranscriptOnly=True,
            isCompactSummary=True,
        )
        caveat = (
            "<local-command-caveat>The command below was run directly in Claude Code, not sent "
            "to you as a request, and its output goes straight to the user.</local-command-caveat>"
        )
        self.chained("user", message={"role": "user", "content": caveat}, isMeta=True)
        space = "\n            "
        self.chained(
            "user",
            message={
                "role": "user",
                "content": f"<command-name>/compact</command-name>{space}<command-message>compact"
                f"</command-message>{space}<command-args>{args}</command-args>",
            },
        )
        self.chained(
            "user",
            message={
                "role": "user",
                "content": "<local-command-stdout>\x1b[2mCompacted (ctrl+o to see full summary)"
                "\x1b[22m</local-command-stdout>",
            },
        )

    def finish(self) -> None:
        """What Claude Code writes when the session is closed."""
        models = {}
        for model, (fresh, written, read, output) in self.usage.items():
            price, output_price = PRICES[model]
            cost = (fresh + 1.25 * written + 0.1 * read) * price + output * output_price
            models[model] = {
                "inputTokens": fresh,
                "outputTokens": output,
                "cacheReadInputTokens": read,
                "cacheCreationInputTokens": written,
                "costUSD": round(cost / 1e6, 6),
            }
        self.bare(
            "cost-state",
            totalCostUSD=round(sum(model["costUSD"] for model in models.values()), 6),
            modelUsage=models,
        )

    # .. tools

    def bash(
        self, command: str, output: str, about: str, *, code: int = 0, seconds: float = 2
    ) -> Call:
        given = {"command": command, "description": about}
        if code:
            text = f"Exit code {code}\n{output}"
            return Call("Bash", given, text, True, f"Error: {text}", seconds)
        result = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        return Call("Bash", given, output, False, result, seconds)

    def read(self, path: str) -> Call:
        text = self.files[path]
        lines = text.split("\n")
        numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))
        file = {
            "filePath": f"{self.cwd}/{path}",
            "content": text,
            "numLines": len(lines),
            "startLine": 1,
            "totalLines": len(lines),
        }
        given = {"file_path": f"{self.cwd}/{path}"}
        return Call("Read", given, numbered, False, {"type": "text", "file": file}, 0.1)

    def edit(self, path: str, old: str, new: str) -> Call:
        before = self.files[path]
        if before.count(old) != 1:
            raise ValueError(f"{path}: {old!r} stands there {before.count(old)} times")
        after = self.files[path] = before.replace(old, new)
        full = f"{self.cwd}/{path}"
        return Call(
            "Edit",
            {"file_path": full, "old_string": old, "new_string": new, "replace_all": False},
            f"The file {full} has been updated successfully.",
            False,
            {
                "filePath": full,
                "oldString": old,
                "newString": new,
                "originalFile": before,
                "structuredPatch": hunks(before, after),
                "userModified": False,
                "replaceAll": False,
            },
            0.2,
        )

    def write(self, path: str, content: str) -> Call:
        before = self.files.get(path)
        self.files[path] = content
        full = f"{self.cwd}/{path}"
        created = before is None
        return Call(
            "Write",
            {"file_path": full, "content": content},
            f"File created successfully at: {full}"
            if created
            else f"The file {full} has been updated successfully.",
            False,
            {
                "type": "create" if created else "update",
                "filePath": full,
                "content": content,
                "structuredPatch": [] if created else hunks(before or "", content),
                "originalFile": before,
            },
            0.2,
        )

    def todos(self, *items: tuple[str, str]) -> Call:
        """A todo list: (text, status)."""
        todos = [{"content": text, "status": status, "activeForm": text} for text, status in items]
        return Call(
            "TodoWrite",
            {"todos": todos},
            "Todos have been modified successfully. Ensure that you continue to use the todo list "
            "to track your progress.",
            False,
            {"oldTodos": [], "newTodos": todos},
            0.1,
        )

    def ask(self, questions: list[dict[str, Any]], answers: dict[str, str]) -> Call:
        given = ", ".join(f'"{key}"="{value}"' for key, value in answers.items())
        return Call(
            "AskUserQuestion",
            {"questions": questions},
            f"Your questions have been answered: {given}. You can now continue with these answers "
            "in mind.",
            False,
            {"questions": questions, "answers": answers, "annotations": {}},
            48,
        )

    def denied(self, command: str, about: str) -> Call:
        return Call(
            "Bash",
            {"command": command, "description": about},
            "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if "
            "it was a file edit, the new_string was NOT written to the file). STOP what you are "
            "doing and wait for the user to tell you how to proceed.",
            True,
            "User rejected tool use",
            6,
            {"toolDenialKind": "user-rejected", "toolDenialBeforeRun": True},
        )

    def launch(self, child: Claude, about: str, prompt: str, kind: str) -> Call:
        """Starts a subagent in the background."""
        child.clock = self.clock + timedelta(seconds=7)
        return Call(
            "Agent",
            {"description": about, "prompt": prompt, "subagent_type": kind},
            [
                {
                    "type": "text",
                    "text": "Async agent launched successfully. (This tool result is internal "
                    f"metadata.)\nagentId: {child.agent}\nThe agent is working in the background.",
                }
            ],
            False,
            {
                "isAsync": True,
                "status": "async_launched",
                "agentId": child.agent,
                "description": about,
                "resolvedModel": child.model,
                "prompt": prompt,
            },
            0.3,
        )

    def notified(self, child: Claude, call_id: str, about: str, result: str) -> None:
        """The report of a subagent arrives."""
        self.tick(2)
        text = (
            f"<task-notification>\n<task-id>{child.agent}</task-id>\n"
            f"<tool-use-id>{call_id}</tool-use-id>\n<status>completed</status>\n"
            f'<summary>Agent "{about}" finished</summary>\n<result>{result}</result>\n'
            "</task-notification>"
        )
        self.chained(
            "user",
            message={"role": "user", "content": text},
            origin={"kind": "task-notification", "producer": "session-task"},
            promptSource="system",
        )

    def call_ids(self) -> list[str]:
        """The ids of every tool call so far."""
        return [
            block["id"]
            for record in self.records
            if isinstance(record, dict) and record["type"] == "assistant"
            for block in record["message"]["content"]
            if block["type"] == "tool_use"
        ]

    def fork(self, key: str, start: str) -> Claude:
        """``--fork-session``: a new session that repeats the records so far."""
        other = Claude(key, self.cwd, start, model=self.model, branch=self.branch)
        other.records.clear()
        other.files = dict(self.files)
        for record in self.records:
            if isinstance(record, dict) and "uuid" in record:
                other.records.append({**record, "sessionId": other.session})
        other.leaf, other.context, other.prompts = self.leaf, self.context, self.prompts
        return other


# --------------------------------------------------------------------------------------- Codex


@dataclass
class Run:
    """A call of one of Codex's tools. ``item`` is the event that tells of it, if any."""

    name: str
    arguments: Any
    output: Any
    item: dict[str, Any] | None = None
    seconds: float = 1.0
    custom: bool = False
    namespace: str = ""


class Codex:
    """One rollout file. ``legacy`` writes as Codex 0.145 did: no ordinals, and messages told by
    events of their own instead of items. ``base`` is the thread that a fork refers to, with the
    ordinal before which its records belong to the fork too."""

    def __init__(
        self,
        key: str,
        cwd: str,
        start: str,
        *,
        model: str = "gpt-5.5",
        branch: str = "main",
        legacy: bool = False,
        files: dict[str, str] | None = None,
        base: tuple[Codex, int] | None = None,
        parent: Codex | None = None,
        nickname: str = "",
    ) -> None:
        self.key = key
        self.cwd = cwd
        self.clock = utc(start) + timedelta(milliseconds=int(digest(key)[:4], 16) // 2)
        self.start = self.clock
        self.model = model
        self.legacy = legacy
        self.files = {} if files is None else files
        self.id = uuid7(self.clock, "codex", key)
        self.records: list[Record | str] = []
        self.history: list[Record] = []
        self.ordinal = base[1] if base else 0
        self.total: dict[str, int] = dict(base[0].total) if base else dict.fromkeys(TOKEN_KEYS, 0)
        self.turn = ""
        self.turns = 0
        self.context = 9_000
        self.last_text: str | None = None
        self.parent = parent
        self._count = 0
        source: Any = "cli" if legacy else "vscode"
        meta: Record = {"session_id": parent.id if parent else self.id, "id": self.id}
        if base:
            meta["forked_from_id"] = base[0].id
        if parent:
            meta["parent_thread_id"] = parent.id
            spawn = {
                "parent_thread_id": parent.id,
                "depth": 1,
                "agent_path": None,
                "agent_nickname": nickname,
                "agent_role": "default",
            }
            source = {"subagent": {"thread_spawn": spawn}}
        meta.update(
            timestamp=iso(self.clock),
            cwd=cwd,
            originator="codex-tui",
            cli_version="0.145.0" if legacy else CODEX,
            source=source,
            thread_source="subagent" if parent else "user",
        )
        if parent:
            meta.update(agent_nickname=nickname, agent_role="default")
        meta.update(model_provider="openai", history_mode="legacy" if legacy else "paginated")
        if base:
            meta["history_base"] = {
                "thread_id": base[0].id,
                "end_ordinal_exclusive": base[1],
                "end_byte_offset": len(dump(base[0].records[: base[1]]).encode()),
            }
        meta["git"] = {"commit_hash": digest(cwd)[:40], "branch": branch}
        self.put("session_meta", meta)

    # .. plumbing

    def put(self, type_: str, payload: Record) -> None:
        record: Record = {"timestamp": iso(self.clock)}
        if not self.legacy:
            record["ordinal"] = self.ordinal
            self.ordinal += 1
        record.update(type=type_, payload=payload)
        self.records.append(record)

    def event(self, type_: str, **fields: Any) -> None:
        self.put("event_msg", {"type": type_, **fields})

    def item(self, item: Record) -> None:
        if not self.legacy:
            now = milliseconds(self.clock)
            self.event(
                "item_completed",
                thread_id=self.id,
                turn_id=self.turn,
                item=item,
                started_at_ms=now,
                completed_at_ms=now,
            )

    def tick(self, seconds: float) -> None:
        self.clock += timedelta(seconds=seconds, milliseconds=13 * (self._count % 7))

    def new(self, kind: str, prefix: str = "") -> str:
        self._count += 1
        return prefix + digest(self.key, kind, self._count)[:24]

    def message(
        self, role: str, content: list[Record], kinds: list[str], id_: str = "", **more: Any
    ) -> None:
        payload: Record = {"type": "message"}
        if id_ or not self.legacy:
            payload["id"] = id_ or "msg_" + uuid7(self.clock, self.key, "m", self.new("m"))
        payload.update(role=role, content=content, **more)
        passthrough: Record = {"turn_id": self.turn}
        if not self.legacy:
            passthrough["content_item_kinds"] = kinds
        payload["internal_chat_message_metadata_passthrough"] = passthrough
        self.put("response_item", payload)

    # .. turns

    def begin(self, trigger: str | None = "user") -> None:
        self.turns += 1
        self.turn = uuid7(self.clock, self.key, "turn", self.turns)
        self.began = self.clock
        self.last_text = None
        self.event(
            "task_started",
            turn_id=self.turn,
            started_at=int(self.clock.timestamp()),
            model_context_window=258_400,
            collaboration_mode_kind="default",
        )

    def prompt(
        self, text: str, *, wait: float = 60, image: tuple[str, bytes] | None = None
    ) -> None:
        """A prompt after ``wait`` seconds; ``image`` is a path and its content."""
        self.tick(wait)
        if not self.parent:
            self.history.append(
                {"session_id": self.id, "ts": int(self.clock.timestamp()), "text": text}
            )
        self.begin()
        if self.turns == 1:
            self.message(
                "developer",
                [
                    {
                        "type": "input_text",
                        "text": "<permissions instructions>\n`sandbox_mode` is "
                        "`workspace-write`.\n</permissions instructions>",
                    }
                ],
                ["permissions.instructions"],
            )
            self.message(
                "user",
                [
                    {
                        "type": "input_text",
                        "text": f"<environment_context>\n  <cwd>{self.cwd}</cwd>\n"
                        "  <shell>bash</shell>\n</environment_context>",
                    }
                ],
                ["environments.environment_context"],
            )
        self.put(
            "turn_context",
            {
                "turn_id": self.turn,
                "cwd": self.cwd,
                "approval_policy": "on-request",
                "model": self.model,
                "summary": "detailed",
            },
        )
        self.tick(0.1)
        content: list[Record] = []
        shown: list[Record] = []
        kinds: list[str] = []
        if image:
            path, data = image
            url = "data:image/png;base64," + base64.b64encode(data).decode()
            content = [
                {"type": "input_text", "text": f'<image name=[Image #1] path="{path}">'},
                {"type": "input_image", "image_url": url, "detail": "original"},
                {"type": "input_text", "text": "</image>"},
            ]
            kinds = ["user.text", "user.image", "user.text"]
            shown = [{"type": "local_image", "path": path}]
        content.append({"type": "input_text", "text": text})
        shown.append({"type": "text", "text": text, "text_elements": []})
        self.message("user", content, [*kinds, "user.text"])
        if self.legacy:
            self.event("user_message", message=text, images=[], local_images=[], text_elements=[])
        else:
            self.item({"type": "UserMessage", "id": self.new("user"), "content": shown})
        self.context += len(text) // 4

    def step(
        self, text: str = "", *runs: Run, think: str = "", phase: str = "", seconds: float = 4
    ) -> None:
        """One response of the model and the outputs of its calls."""
        self.tick(seconds)
        size = len(text) + len(think)
        if think:
            id_ = self.new("reasoning", "rs_")
            if self.legacy:
                self.event("agent_reasoning", text=think)
            else:
                self.item(
                    {"type": "Reasoning", "id": id_, "summary_text": [think], "raw_content": []}
                )
            self.put(
                "response_item",
                {
                    "type": "reasoning",
                    "id": id_,
                    "summary": [{"type": "summary_text", "text": think}],
                    "content": None,
                    "encrypted_content": "gAAAAsample",
                    "internal_chat_message_metadata_passthrough": {"turn_id": self.turn},
                },
            )
        if text:
            id_ = self.new("message", "msg_")
            phase = phase or ("commentary" if runs else "final_answer")
            if self.legacy:
                self.event("agent_message", message=text, phase=phase, memory_citation=None)
            else:
                self.item(
                    {
                        "type": "AgentMessage",
                        "id": id_,
                        "content": [{"type": "Text", "text": text}],
                        "phase": phase,
                    }
                )
            content = [{"type": "output_text", "text": text}]
            self.message("assistant", content, ["unknown"], id_, phase=phase)
            self.last_text = text
        calls = []
        for run in runs:
            calls.append(self.new("call", "call_"))
            payload: Record
            if run.custom:
                payload = {
                    "type": "custom_tool_call",
                    "id": self.new("ctc", "ctc_"),
                    "status": "completed",
                    "call_id": calls[-1],
                    "name": run.name,
                    "input": run.arguments,
                }
            else:
                payload = {
                    "type": "function_call",
                    "id": self.new("fc", "fc_"),
                    "name": run.name,
                }
                if run.namespace:
                    payload["namespace"] = run.namespace
                payload.update(arguments=compact(run.arguments), call_id=calls[-1])
            payload["internal_chat_message_metadata_passthrough"] = {"turn_id": self.turn}
            self.put("response_item", payload)
            size += len(compact(run.arguments))
        usage = self._spend(size, len(think))
        for run, call in zip(runs, calls, strict=True):
            self.tick(run.seconds)
            if run.item:
                self.item({**run.item, "id": call})
            payload = {"type": ("custom_tool_call" if run.custom else "function_call") + "_output"}
            if not self.legacy:
                payload["id"] = self.new("output", "fco_")
            payload.update(call_id=call, output=run.output)
            payload["internal_chat_message_metadata_passthrough"] = {"turn_id": self.turn}
            self.put("response_item", payload)
            self.context += len(compact(run.output)) // 4
        self._token_count(usage)

    def _spend(self, size: int, thought: int) -> dict[str, int]:
        output = max(8, size // 4)
        usage = dict.fromkeys(TOKEN_KEYS, 0)
        usage["input_tokens"] = self.context
        usage["cached_input_tokens"] = self.context * 9 // 10 // 128 * 128
        usage["output_tokens"] = output
        usage["reasoning_output_tokens"] = min(output, thought // 4)
        usage["total_tokens"] = self.context + output
        for key, number in usage.items():
            self.total[key] += number
        if not self.legacy:
            self.put(
                "token_usage_record",
                {
                    "thread_id": self.id,
                    "turn_id": self.turn,
                    "session_id": self.parent.id if self.parent else self.id,
                    "response_id": self.new("response", "resp_"),
                    "usage": usage,
                    "thread_token_usage": dict(self.total),
                },
            )
        self.context += output
        return usage

    def _token_count(self, usage: dict[str, int]) -> None:
        self.event(
            "token_count",
            info={
                "total_token_usage": dict(self.total),
                "last_token_usage": usage,
                "model_context_window": 258_400,
            },
            rate_limits=None,
        )

    def end(self, error: str = "") -> None:
        """The turn is complete; ``error`` is why it failed."""
        self.tick(0.2)
        fields: Record = {"turn_id": self.turn, "last_agent_message": self.last_text}
        if error:
            fields["error"] = {"message": error, "codex_error_info": "other"}
        self.event(
            "task_complete",
            **fields,
            started_at=int(self.began.timestamp()),
            completed_at=int(self.clock.timestamp()),
            duration_ms=milliseconds(self.clock) - milliseconds(self.began),
        )

    def answer(self, text: str, *, think: str = "", seconds: float = 8) -> None:
        """The last answer of a turn."""
        self.step(text, think=think, seconds=seconds)
        self.end()

    def abort(self) -> None:
        self.tick(2)
        self.message(
            "user",
            [
                {
                    "type": "input_text",
                    "text": "<turn_aborted>\nThe user interrupted the previous "
                    "turn on purpose.\n</turn_aborted>",
                }
            ],
            ["generic.turn_aborted"],
        )
        self.event(
            "turn_aborted",
            turn_id=self.turn,
            reason="interrupted",
            started_at=int(self.began.timestamp()),
            completed_at=int(self.clock.timestamp()),
        )

    def roll_back(self, turns: int) -> None:
        self.tick(20)
        self.event("thread_rolled_back", num_turns=turns)

    def shell(self, command: str, output: str, *, wait: float = 30) -> None:
        """``!command``"""
        self.tick(wait)
        self.history.append(
            {"session_id": self.id, "ts": int(self.clock.timestamp()), "text": "!" + command}
        )
        self.begin(None)
        self.item(
            self._execution(command, output, 0) | {"source": "user_shell", "id": self.new("s")}
        )
        self.message(
            "user",
            [
                {
                    "type": "input_text",
                    "text": f"<user_shell_command>\n<command>\n{command}\n"
                    f"</command>\n<result>\nExit code: 0\nDuration: 0.0120 seconds\nOutput:\n{output}\n"
                    "</result>\n</user_shell_command>",
                }
            ],
            ["shell.user_command"],
        )
        self.end()

    def compact(self, summary: str, *, wait: float = 30) -> None:
        """``/compact``"""
        self.tick(wait)
        self.begin(None)
        self.message(
            "assistant",
            [{"type": "output_text", "text": summary}],
            ["unknown"],
            self.new("summary", "msg_"),
        )
        usage = self._spend(len(summary), 0)
        self._token_count(usage)
        self.put(
            "compacted",
            {
                "message": "Another language model started to solve this problem and produced a "
                f"summary of its thinking process.\n{summary}",
                "replacement_history": [],
            },
        )
        self.item({"type": "ContextCompaction", "id": self.new("compaction")})
        self.context = 9_000 + len(summary) // 4
        self.end()

    # .. tools

    def _execution(self, command: str, output: str, code: int) -> Record:
        return {
            "type": "CommandExecution",
            "command": ["/bin/bash", "-lc", command],
            "cwd": f"file://{self.cwd}",
            "source": "unified_exec_startup",
            "status": "completed" if code == 0 else "failed",
            "aggregated_output": output,
            "exit_code": code,
        }

    def run(self, command: str, output: str, *, code: int = 0, seconds: float = 1) -> Run:
        text = (
            f"Chunk ID: {digest(self.key, command)[:6]}\nWall time: {seconds:.4f} seconds\n"
            f"Process exited with code {code}\nOriginal token count: {len(output) // 4}\n"
            f"Output:\n{output}"
        )
        item = self._execution(command, output, code)
        return Run("exec_command", {"cmd": command}, text, item, seconds)

    def patch(self, *changes: tuple[str, str, str]) -> Run:
        """``apply_patch``: (path, old text, new text); a path that is not there is added."""
        parts = ["*** Begin Patch"]
        told: Record = {}
        names = []
        for path, old, new in changes:
            full = f"{self.cwd}/{path}"
            if path in self.files:
                before = self.files[path]
                if before.count(old) != 1:
                    raise ValueError(f"{path}: {old!r} stands there {before.count(old)} times")
                after = self.files[path] = before.replace(old, new)
                parts.append(f"*** Update File: {path}")
                for hunk in hunks(before, after):
                    parts += ["@@", *hunk["lines"]]
                told[full] = {
                    "type": "update",
                    "unified_diff": unified(before, after),
                    "move_path": None,
                }
                names.append(f"M {path}")
            else:
                self.files[path] = new
                parts.append(f"*** Add File: {path}")
                parts += ["+" + line for line in new.splitlines()]
                told[full] = {"type": "add", "content": new}
                names.append(f"A {path}")
        parts.append("*** End Patch")
        done = "Success. Updated the following files:\n" + "\n".join(names) + "\n"
        return Run(
            "apply_patch",
            "\n".join(parts),
            f"Exit code: 0\nWall time: 0 seconds\nOutput:\n{done}",
            {
                "type": "FileChange",
                "changes": told,
                "status": "completed",
                "stdout": done,
                "stderr": "",
            },
            0.3,
            custom=True,
        )

    def plan(self, explanation: str, *steps: tuple[str, str]) -> Run:
        plan = [{"step": step, "status": status} for step, status in steps]
        return Run(
            "update_plan", {"explanation": explanation, "plan": plan}, "Plan updated", None, 0.1
        )

    def look(self, path: str, data: bytes) -> Run:
        url = "data:image/png;base64," + base64.b64encode(data).decode()
        return Run(
            "view_image",
            {"path": path},
            [{"type": "input_image", "image_url": url, "detail": "original"}],
            {"type": "ImageView", "path": f"file://{path}"},
            0.2,
        )

    def spawn(self, child: Codex, nickname: str, message: str) -> Run:
        item = {
            "type": "CollabAgentToolCall",
            "tool": "spawn_agent",
            "status": "completed",
            "sender_thread_id": self.id,
            "receiver_thread_ids": [child.id],
            "prompt": message,
        }
        output = compact({"agent_id": child.id, "nickname": nickname})
        given = {"message": message, "agent_type": "default"}
        return Run("spawn_agent", given, output, item, 0.4, namespace="multi_agent_v1")

    def wait_for(self, child: Codex, result: str, seconds: float) -> Run:
        state = {child.id: {"completed": result}}
        item = {
            "type": "CollabAgentToolCall",
            "tool": "wait",
            "status": "completed",
            "sender_thread_id": self.id,
            "receiver_thread_ids": [child.id],
            "agents_states": state,
        }
        output = compact({"status": state, "timed_out": False})
        given = {"targets": [child.id], "timeout_ms": 120_000}
        return Run("wait_agent", given, output, item, seconds, namespace="multi_agent_v1")

    @property
    def file_name(self) -> str:
        return f"rollout-{self.start:%Y-%m-%dT%H-%M-%S}-{self.id}.jsonl"


TOKEN_KEYS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
    "total_tokens",
)
