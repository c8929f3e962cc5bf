"""What a chat session of VS Code holds, as a conversation: requests, response parts, tool calls.

Shapes are those of VS Code's ``chatModel.ts`` / ``chatService.ts`` (version 1 to 3, exports) and of
186 session files; anything may be missing or of another type.
"""

from __future__ import annotations

import base64
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from ..model import (
    Attachment,
    FileEdit,
    FileRecords,
    ParsedConversation,
    ParsedMessage,
    ParsedToolCall,
    Tokens,
)
from ..text import clean, count, first_line, iso_time, json_start, json_text
from .vscode_dirs import path_from_uri

#: Parts of result.metadata that repeat the conversation for the model, with its instructions.
_UNREAD_METADATA = (
    "renderedUserMessage",
    "renderedGlobalContext",
    "messages",
    "codeBlocks",
    "cacheKey",
)


def slim_request(request: Any) -> None:
    """Drops from a request, in place, what is big and never read here."""
    if not isinstance(request, dict):
        return
    metadata = _dict(_dict(request.get("result")).get("metadata"))
    for key in _UNREAD_METADATA:
        metadata.pop(key, None)
    for round_ in _list(metadata.get("toolCallRounds")):
        if isinstance(round_, dict):
            round_.pop("statefulMarker", None)
            _dict(round_.get("thinking")).pop("encrypted", None)


def build_conversation(
    source: str,
    session_id: str,
    session: dict[str, Any],
    requests: Iterable[tuple[Any, bool]],
    records: FileRecords,
) -> ParsedConversation:
    """The conversation of a decoded session. ``requests`` are its requests, each with whether it
    was taken away from the session later: those are kept as ``abandoned``. Response parts of unknown
    kinds are counted in ``records``, as records of their own."""
    conversation = ParsedConversation(source, session_id)
    conversation.started_at = iso_time(session.get("creationDate"))
    conversation.cwd = path_from_uri(session.get("workingDirectory"))
    repository = _dict(session.get("repoData"))
    conversation.git_branch = _str(repository.get("localBranch")) or None
    conversation.git_remote = _without_password(_str(repository.get("remoteUrl"))) or None
    uids: set[str] = set()
    requests = [(request, gone) for request, gone in requests if isinstance(request, dict)]
    for position, (request, taken_away) in enumerate(requests):
        if taken_away and _was_stub(request, requests[position + 1 : position + 2]):
            continue
        turn = _Turn(request, position, taken_away, records)
        for message in turn.messages():
            uid = message.uid
            if uid in uids:  # ids are unique in real sessions
                message.shared_uid = False
                message.uid = uid = f"{uid}#{len(uids)}"
            uids.add(uid)
            conversation.messages.append(message)
            if message.tool_calls:
                conversation.messages.grew(
                    sum(len(c.input or "") + len(c.output or "") for c in message.tool_calls)
                )
            if conversation.title is None and not taken_away and message.kind in _ASKED:
                conversation.title = first_line(message.content) or None
                conversation.title_origin = "first-prompt" if conversation.title else None
            if message.model:
                conversation.model = message.model
        version = _dict(request.get("agent")).get("extensionVersion")
        if isinstance(version, str) and version:
            conversation.tool_version = clean(version)
    for key in ("customTitle", "computedTitle"):
        title = first_line(_str(session.get(key)))
        if title:
            conversation.title, conversation.title_origin = title, "tool"
            break
    return conversation


def _was_stub(request: dict[str, Any], following: list[tuple[Any, bool]]) -> bool:
    """Whether a request only met the sign-in dialog (agent ``setup.agent`` and the like) and was
    sent again, word for word, when that was done."""
    agent = _str(_dict(request.get("agent")).get("id"))
    if not agent.startswith("setup.") or not following:
        return False
    text = _message_text(request.get("message"))
    return text == _message_text(following[0][0].get("message"))


_ASKED = ("prompt", "command", "answer")


# --------------------------------------------------------------------------- one request

#: ``request_<uuid>``, or ``<session uuid>_<n>`` until 2024: the same in every copy of a session.
_UNIQUE_ID = re.compile(r"(?:[a-z]+_)?[0-9a-z]{8}(?:-[0-9a-z]{4}){3}-[0-9a-z]{12}(?:_\d+)?")
#: modelState.value
_STATES = {0: "pending", 1: "complete", 2: "cancelled", 3: "failed", 4: "pending"}
#: isConfirmed.type
_DENIED = (0, 5)
_EMPTY_FENCES = ("```", "````")


class _Turn:
    """One request on its way to messages: a row for what was asked, a row for each step of the
    answer (thinking, then text, then the tool calls that followed), rows for what the editor said
    in between."""

    def __init__(
        self,
        request: dict[str, Any],
        position: int,
        taken_away: bool,
        records: FileRecords,
    ) -> None:
        self.request = request
        self.position = position
        self.records = records
        identifier = _str(request.get("requestId"))
        self.uid = identifier or f"request-{position}"
        self.shared = bool(_UNIQUE_ID.fullmatch(identifier))
        self.hidden = bool(request.get("isHidden") or request.get("shouldBeRemovedOnSend"))
        self.state = "abandoned" if taken_away else "rolled-back" if self.hidden else "active"
        self.result = _dict(request.get("result"))
        self.metadata = _dict(self.result.get("metadata"))
        self.error = _dict(self.result.get("errorDetails") or request.get("responseErrorDetails"))
        self.outcome = self._outcome()
        self.model = self._model()
        self.rows: list[ParsedMessage] = []
        self.step: ParsedMessage | None = None
        self.text: list[str] = []
        self.thoughts: list[str] = []
        self.thought_id: Any = None
        self.blank = ""
        self.joined = _Joined(self.metadata)
        self.edits_wait: list[FileEdit] = []
        self.edits_have_calls = False
        self.last_call: ParsedToolCall | None = None
        self.last_edit: ParsedToolCall | None = None

    # ---------------------------------------------------------------- the rows

    def messages(self) -> list[ParsedMessage]:
        asked = self._asked()
        if asked is not None:
            self.rows.append(asked)
        response = self.request.get("response")
        parts = [response] if isinstance(response, str) else _list(response)
        self.joined.prepare(parts)
        self.edits_have_calls = any(_is_edit_call(part) for part in parts)
        self._answer(parts)
        self._close()
        self._finish(answered=response is not None)
        return self.rows

    def _asked(self) -> ParsedMessage | None:
        request = self.request
        text = _message_text(request.get("message"))
        attachments = _attachments(request.get("variableData"))
        if not text.strip() and not attachments:
            return None
        role, kind = "user", "prompt"
        if request.get("isSystemInitiated"):
            role, kind = "system", "notification"
        elif request.get("requestHiddenFromTranscript") or request.get("hiddenFromTranscript"):
            role, kind = "system", "context"
        elif _str(request.get("confirmation")):
            kind = "answer"  # a button was pressed; the text says which
        elif isinstance(request.get("slashCommand"), dict) and text.lstrip()[:1] in ("/", "@"):
            kind = "command"
        return self._row(role, kind, text, request.get("timestamp"), attachments=attachments)

    def _row(
        self,
        role: str,
        kind: str,
        content: str = "",
        time: Any = None,
        attachments: list[Attachment] | None = None,
    ) -> ParsedMessage:
        number = len(self.rows)
        message = ParsedMessage(
            self.uid if number == 0 and role == "user" else f"{self.uid}/{number}",
            role,
            kind,
            content,
            timestamp=iso_time(time),
            state=self.state,
            shared_uid=self.shared,
            record=self.position,
        )
        if role == "assistant":
            message.model = self.model
        if attachments:
            message.attachments = attachments
        return message

    def _finish(self, *, answered: bool) -> None:
        """What the request ended with: an error, a cancellation, the tokens, the vote."""
        request, error = self.request, self.error
        message = _str(error.get("message"))
        replies = [row for row in self.rows if row.role == "assistant"]
        cut = self.outcome == "cancelled" or bool(error.get("responseIsIncomplete"))
        if replies and cut and replies[-1].content:
            replies[-1].kind = "partial"
        unanswered = message or self.outcome == "pending" or self.state == "abandoned"
        if not replies and answered and not unanswered:
            self.rows.append(self._row("assistant", "reply"))
            replies = [self.rows[-1]]
        if replies:
            last = replies[-1]
            last.tokens = self._tokens()
            last.timestamp = iso_time(_dict(request.get("modelState")).get("completedAt"))
            vote = request.get("vote")
            if vote in (0, 1) and not isinstance(vote, bool):
                last.vote = "up" if vote == 1 else "down"
        if self.outcome == "cancelled":
            self.rows.append(self._row("system", "interruption", message or "Canceled"))
        elif message:
            self.rows.append(self._row("system", "error", message))
        tokens = self._tokens() if not replies else None
        if tokens is not None and self.rows and self.rows[-1].role == "system":
            self.rows[-1].tokens = tokens  # the call happened, whatever became of it

    def _outcome(self) -> str:
        state = self.request.get("modelState")
        value = state.get("value") if isinstance(state, dict) else state
        if type(value) is int and value in _STATES:
            return _STATES[value]
        if self.request.get("isCanceled") is True or self.error.get("code") == "canceled":
            return "cancelled"
        return "failed" if self.error else "complete"

    def _model(self) -> str | None:
        resolved = _str(self.metadata.get("resolvedModel"))
        if resolved:
            return clean(resolved)
        chosen = _str(self.request.get("modelId"))
        chosen = chosen.removeprefix("copilot/")
        if chosen and chosen != "auto":
            return clean(chosen)
        # "GPT-5 mini • 1x"
        return first_line(_str(self.result.get("details")).partition("•")[0]) or None

    def _tokens(self) -> Tokens | None:
        """``completionTokens`` is the sum over all model calls of the request. What is called
        promptTokens is the context of the last call, not what was sent: left out. So is
        ``metadata.outputTokens``, unless there was one call only."""
        output = count(self.request.get("completionTokens"))
        if output is None:
            output = count(_dict(self.result.get("usage")).get("completionTokens"))
        rounds = _list(self.metadata.get("toolCallRounds"))
        if output is None and len(rounds) <= 1:
            output = count(self.metadata.get("outputTokens"))
        return Tokens(output=output) if output else None

    # ---------------------------------------------------------------- steps of the answer

    def _answer(self, parts: list[Any]) -> None:
        edited = _edited_fences(parts)
        before: Any = None
        for index, part in enumerate(parts):
            previous, before = before, part
            if isinstance(part, str):
                self._say(part)
                continue
            if not isinstance(part, dict):
                continue
            kind = part.get("kind")
            if index in edited:
                self._say(edited[index])
            elif kind is None:
                self._say(_text(part))
            elif not isinstance(kind, str):
                self._unknown(str(kind), part)
            elif kind in _PROSE:
                if kind != "inlineReference":
                    self._say(_PROSE[kind](part))
                elif not self._names_edit(part, previous):
                    # Two code spans that touch would be one.
                    touches = self.text and self.text[-1].endswith("`")
                    self._say((" " if touches else "") + _inline_reference(part))
            elif kind == "thinking":
                self._think(part)
            elif kind == "toolInvocationSerialized" or kind == "toolInvocation":
                self._call(part)
            elif kind in _EDITS:
                self._edit(_EDITS[kind](part), part)
            elif kind in _EVENTS:
                self._event(_EVENTS[kind][0], _EVENTS[kind][1](part))
            elif kind == "questionCarousel":
                self._questions(part)
            elif kind == "clearToPreviousToolInvocation":
                self._retract()
            elif kind not in _NOISE:
                self._unknown(kind, part)

    def _names_edit(self, part: dict[str, Any], previous: Any) -> bool:
        """Whether a reference only says which file the edit right before it was made to: no words
        of the model."""
        if self.text or not isinstance(previous, dict) or previous.get("kind") not in _EDITS:
            return False
        path = path_from_uri(part.get("inlineReference"))
        return path is not None and path == path_from_uri(previous.get("uri"))

    def _unknown(self, kind: str, part: dict[str, Any]) -> None:
        self.records.records += 1
        self.records.add_unknown(f"request {self.position}", clean(kind), clean(json_start(part)))
        self._event("notification", _text(part) or _text(part.get("content")))

    def _say(self, text: str) -> None:
        if not text:
            return
        begins = self.step is None or bool(self.step.tool_calls)
        if (begins or not self.text) and not text.strip():
            # Blank lines around thoughts and tool calls make no step; before text they belong to it.
            self.blank += text
            return
        blank = self.blank
        if begins:
            self._open()
        self.text.append(blank + text)
        self.blank = ""

    def _think(self, part: dict[str, Any]) -> None:
        value = part.get("value")
        if isinstance(value, list):
            value = "".join(item for item in value if isinstance(item, str))
        text = _str(value)
        if not text.strip():
            return
        if self.step is None or self.step.tool_calls or self.text:
            self._open()
        elif self.thoughts and part.get("id") != self.thought_id:
            self._open()  # another thought
        self.thought_id = part.get("id")
        self.thoughts.append(text)

    def _open(self) -> ParsedMessage:
        self._close()
        self.step = self._row("assistant", "reply")
        self.rows.append(self.step)
        return self.step

    def _close(self) -> None:
        if self.step is not None:
            self.step.content = clean("".join(self.text))
            self.step.thinking = "".join(self.thoughts) or None
        self.step, self.text, self.thoughts, self.thought_id = None, [], [], None
        self.blank = ""

    def _event(self, kind: str, content: str) -> None:
        content = clean(content).strip()
        if content:
            self._close()
            self.rows.append(self._row("system", kind, content))

    def _questions(self, part: dict[str, Any]) -> None:
        """Questions that the model asked in a form, and what the user filled in."""
        questions, answers = _question_lines(part)
        self._event("notification", questions)
        if answers:
            self._close()
            self.rows.append(self._row("user", "answer", clean(answers)))

    def _retract(self) -> None:
        """What was said since the last tool call was withdrawn (a filter, a retry)."""
        if self.step is not None and not self.step.tool_calls:
            if self.step.state == "active":
                self.step.state = "abandoned"
            self._close()
        self.blank = ""

    # ---------------------------------------------------------------- tool calls and edits

    def _call(self, part: dict[str, Any]) -> None:
        step = self.step if self.step is not None else self._open()
        self.blank = ""
        call = self._tool_call(part)
        step.tool_calls.append(call)
        self.last_call = call
        if _is_edit_call(part):
            self.last_edit = call
            self._attach(call, self.edits_wait)
            self.edits_wait = []

    def _edit(self, edits: list[FileEdit], part: dict[str, Any]) -> None:
        """Edits belong to the editing tool call before them, or to whatever call that was (an
        extension's tool). In the edit mode of 2024/25, where the model wrote code blocks and no tool
        was called, they stand as a call of their own."""
        if not edits:
            return
        call = self.last_edit
        if call is None and self.edits_have_calls:
            self.edits_wait += edits
            return
        if call is None:
            call = self.last_call
        if call is None:
            step = self.step if self.step is not None else self._open()
            call = ParsedToolCall(
                _str(part.get("kind")),
                json_text({"path": edits[0].path}),
                status="ok" if part.get("done", True) else self._unfinished(),
                title=first_line(f"edit: {edits[0].path}"),
            )
            step.tool_calls.append(call)
        self._attach(call, edits)

    def _attach(self, call: ParsedToolCall, edits: list[FileEdit]) -> None:
        if "create" in call.name.lower():
            for edit in edits:
                edit.action = "create"
        call.edits += edits

    def _unfinished(self) -> str:
        return "pending" if self.outcome == "pending" else "interrupted"

    def _tool_call(self, part: dict[str, Any]) -> ParsedToolCall:
        special = _dict(part.get("toolSpecificData"))
        details = part.get("resultDetails")
        name, input_, output = self.joined.of(part)
        call = ParsedToolCall(_str(part.get("toolId")) or name or "tool")
        call.call_id = _str(part.get("toolCallId")) or None
        call.input = input_ if input_ is not None else _shown_input(part, special, details)
        call.output = output if output is not None else _shown_output(special, details)
        terminal = _dict(special.get("terminalCommandState"))
        exit_code = terminal.get("exitCode")
        if type(exit_code) is int and abs(exit_code) < 2**53:
            call.exit_code = exit_code
        call.duration_ms = count(terminal.get("duration"))
        call.status = self._status(part, call, details)
        if call.input is None:
            shown = _plain(part.get("invocationMessage")).strip()
            call.input = json_text({"invocationMessage": shown}) if shown else None
        return call

    def _status(self, part: dict[str, Any], call: ParsedToolCall, details: Any) -> str:
        confirmed = part.get("isConfirmed")
        if confirmed is False or _dict(confirmed).get("type") in _DENIED:
            return "denied"
        if part.get("isComplete") is False:
            return self._unfinished()
        output = call.output or ""
        failed = isinstance(details, dict) and details.get("isError") is True
        if failed or call.exit_code not in (None, 0) or output.startswith(_FAILED):
            return "error"
        return "ok" if part.get("isComplete") is True or call.output is not None else "unknown"


#: How Copilot Chat tells the model that a tool failed.
_FAILED = ("ERROR while calling tool", "ERROR: Your input to the tool was invalid")
_EDIT_TOOLS = re.compile(
    r"(?i)edit|replace_?string|apply_?patch|create_?file|insert_?edit|write_?file"
)


def _is_edit_call(part: Any) -> bool:
    return (
        isinstance(part, dict)
        and part.get("kind") == "toolInvocationSerialized"
        and isinstance(part.get("toolId"), str)
        and _EDIT_TOOLS.search(part["toolId"]) is not None
    )


# --------------------------------------------------------------------------- arguments, results

#: Call ids end so in toolCallRounds: "call_abc__vscode-1756289711021".
_ID_TAIL = re.compile(r"__[A-Za-z]+-\d+$")
#: Names that differ between the editor (toolId) and the model.
_MODEL_NAMES = {
    "findtextinfiles": "grepsearch",
    "replacestring": "replacestringinfile",
    "multireplacestring": "multireplacestringinfile",
    "listdirectory": "listdir",
    "findfiles": "filesearch",
    "insertedit": "inserteditintofile",
    "searchcodebase": "semanticsearch",
    "fetchwebpage": "fetchwebpage",
    "geterrors": "geterrors",
}


def _common_name(name: str) -> str:
    """A name under which the editor's and the model's name of a tool are the same."""
    name = name.lower().removeprefix("copilot_").replace("_", "")
    return _MODEL_NAMES.get(name, name)


class _Joined:
    """Joins the tool calls that a response shows with those of ``result.metadata``, where the
    arguments and outputs are. They share an id only where the editor kept the model's; the others
    are joined by order, tool by tool, where both sides have as many calls of it. What is on one side
    only (hidden or cancelled calls, those of subagents) stays unjoined: nothing is counted twice."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        self._results = _dict(metadata.get("toolCallResults"))
        self._calls: list[dict[str, Any]] = [
            call
            for round_ in _list(metadata.get("toolCallRounds"))
            for call in _list(_dict(round_).get("toolCalls"))
            if isinstance(call, dict)
        ]
        self._of: dict[int, dict[str, Any]] = {}

    def prepare(self, parts: list[Any]) -> None:
        """Finds the partner of every tool call among ``parts``."""
        if not self._calls:
            return
        by_id: dict[str, deque[dict[str, Any]]] = defaultdict(deque)
        for call in self._calls:
            by_id[_ID_TAIL.sub("", _str(call.get("id")))].append(call)
        joined: set[int] = set()
        rest: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for part in parts:
            if not isinstance(part, dict) or part.get("kind") != "toolInvocationSerialized":
                continue
            same = by_id.get(_ID_TAIL.sub("", _str(part.get("toolCallId"))))
            if same:
                self._of[id(part)] = call = same.popleft()
                joined.add(id(call))
            elif not part.get("subAgentInvocationId"):
                rest[_common_name(_str(part.get("toolId")))].append(part)
        calls: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for call in self._calls:
            if id(call) not in joined:
                calls[_common_name(_str(call.get("name")))].append(call)
        for name, those in rest.items():
            if len(those) == len(calls[name]):
                for part, call in zip(those, calls[name], strict=True):
                    self._of[id(part)] = call

    def of(self, part: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
        """Name, arguments (JSON text) and output of the partner of ``part``."""
        call = self._of.get(id(part))
        if call is None:
            return None, None, None
        output = _result_text(self._results.get(_str(call.get("id"))))
        return _str(call.get("name")) or None, _arguments(call.get("arguments")), output


def _arguments(value: Any) -> str | None:
    """Arguments as JSON text: they are so already, unless the model broke off."""
    if isinstance(value, str):
        if not value.strip():
            return None
        try:
            orjson.loads(value)
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            return json_text(clean(value))
        return clean(value)
    return json_text(value) if value not in (None, {}, []) else None


def _result_text(result: Any) -> str | None:
    """The text of a tool result: ``{content: [{value}]}`` where a value is text, or a tree of a
    prompt (``{node: {children: [{text} ...]}}``) whose leaves are read in order."""
    if isinstance(result, str):
        return clean(result)
    content = _dict(result).get("content")
    if not isinstance(content, list):
        return None
    texts = []
    for item in content:
        value = item.get("value") if isinstance(item, dict) else item
        text = value if isinstance(value, str) else _tree_text(value)
        if text:
            texts.append(text)
    return clean("\n".join(texts)) if texts else ""


def _tree_text(tree: Any) -> str:
    texts: list[str] = []
    stack: list[Any] = [_dict(tree).get("node", tree)]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            texts.append(node)
        elif isinstance(node, dict):
            text = node.get("text")
            if isinstance(text, str):
                if node.get("lineBreakBefore") and texts and not texts[-1].endswith("\n"):
                    texts.append("\n")
                texts.append(text)
            stack.extend(reversed(_list(node.get("children"))))
    return "".join(texts)


def _shown_input(part: dict[str, Any], special: dict[str, Any], details: Any) -> str | None:
    """What the editor shows of a call's arguments, where the arguments are not recorded."""
    kind = special.get("kind")
    if kind == "terminal":
        line = _dict(special.get("commandLine"))
        command = special.get("command") or next(
            (line[key] for key in ("userEdited", "toolEdited", "original") if _str(line.get(key))),
            None,
        )
        if isinstance(command, str) and command:
            return json_text({"command": clean(command)})
    elif kind == "input" and special.get("rawInput") not in (None, "", {}):
        return json_text(special["rawInput"])
    elif kind == "todoList":
        return json_text({"todoList": special.get("todoList")})
    elif kind == "subagent":
        fields = ("description", "prompt", "agentName")
        return json_text({key: special[key] for key in fields if _str(special.get(key))})
    elif kind == "simpleToolInvocation" and special.get("input") not in (None, ""):
        return _arguments(special["input"])
    if isinstance(details, dict) and details.get("input") not in (None, "", {}):
        return _arguments(details["input"])
    return _linked_files(part.get("invocationMessage"))


def _linked_files(message: Any) -> str | None:
    """The files that the line shown for a call links to, such as ``Reading [](file:///a/b.py)``."""
    paths = [
        path
        for uri in _dict(_dict(message).get("uris")).values()
        if (path := path_from_uri(uri)) is not None
    ]
    if not paths:
        return None
    return json_text({"filePath": paths[0]} if len(paths) == 1 else {"filePaths": paths})


def _shown_output(special: dict[str, Any], details: Any) -> str | None:
    """What the editor shows of a call's result, where the result is not recorded."""
    terminal = _dict(special.get("terminalCommandOutput")).get("text")
    if isinstance(terminal, str):
        return clean(terminal)
    if special.get("kind") == "subagent" and isinstance(special.get("result"), str):
        return clean(special["result"])
    if isinstance(special.get("output"), str) and special.get("kind") == "simpleToolInvocation":
        return clean(special["output"])
    if isinstance(details, list):
        lines = []
        for item in details:
            location = _dict(item)
            path = path_from_uri(location.get("uri", item))
            if path:
                lines.append(path + _line_range(location.get("range")))
        return "\n".join(lines)
    if isinstance(details, dict):
        output = details.get("output")
        texts = [
            value
            for item in (output if isinstance(output, list) else [output])
            if isinstance(value := item if isinstance(item, str) else _dict(item).get("value"), str)
            and _dict(item).get("isText") is not False
        ]
        if texts:
            return clean("\n".join(texts))
    return None


def _line_range(range_: Any) -> str:
    first = count(_dict(range_).get("startLineNumber"))
    last = count(_dict(range_).get("endLineNumber"))
    if first is None:
        return ""
    return f":{first}" if last is None or last <= first else f":{first}-{last}"


# --------------------------------------------------------------------------- file edits

_MAX_DIFF = 2_000_000


def _text_edits(part: dict[str, Any]) -> list[FileEdit]:
    """The edits of one file. VS Code keeps the new text and the lines that it replaced, not the old
    text: the diff shows what was added, and the hunk's head how many lines went."""
    path = path_from_uri(part.get("uri"))
    if path is None:
        return []
    added = removed = size = 0
    hunks: list[str] = []
    for group in _list(part.get("edits")):
        for edit in group if isinstance(group, list) else [group]:
            text = _dict(edit).get("text")
            if not isinstance(text, str):
                continue
            range_ = _dict(_dict(edit).get("range"))
            first = count(range_.get("startLineNumber")) or 1
            last = max(count(range_.get("endLineNumber")) or first, first)
            start_column = count(range_.get("startColumn")) or 1
            end_column = count(range_.get("endColumn")) or 1
            # A range that ends in the first column of a line does not touch that line.
            gone = 0
            if (first, start_column) != (last, end_column):
                gone = last - first + (1 if end_column > 1 else 0)
            lines = text.split("\n")
            if lines[-1] == "":
                lines.pop()
            added += len(lines)
            removed += gone
            if size < _MAX_DIFF:
                hunks.append(f"@@ -{first},{gone} +{first},{len(lines)} @@")
                hunks += ["+" + line.rstrip("\r") for line in lines]
                size += len(text)
    if not hunks:
        return []
    return [FileEdit(clean(path), "edit", added, removed, clean("\n".join(hunks)))]


def _one_file(part: dict[str, Any]) -> list[FileEdit]:
    path = path_from_uri(part.get("uri"))
    return [FileEdit(clean(path))] if path else []


def _workspace_edits(part: dict[str, Any]) -> list[FileEdit]:
    edits = []
    for edit in _list(part.get("edits")):
        old = path_from_uri(_dict(edit).get("oldResource"))
        new = path_from_uri(_dict(edit).get("newResource"))
        if old and new:
            edits.append(FileEdit(clean(new), "rename"))
        elif old or new:
            edits.append(FileEdit(clean(old or new or ""), "delete" if old else "create"))
    return edits


_EDITS: dict[str, Callable[[dict[str, Any]], list[FileEdit]]] = {
    "textEditGroup": _text_edits,
    "textEdit": _text_edits,
    "notebookEditGroup": _one_file,
    "notebookEdit": _one_file,
    "externalEdit": _one_file,
    "workspaceEdit": _workspace_edits,
}


def _edited_fences(parts: list[Any]) -> dict[int, str]:
    """Where a code block is an edit, its text is taken out and only the two fences are left, with a
    ``codeblockUri`` between them; VS Code shows the file's name there, and so do we. Gives the text
    to put at the index of the ``codeblockUri``."""
    shown: dict[int, str] = {}
    inside: int | None = None  # the index of a codeblockUri, -1 before it
    for index, part in enumerate(parts):
        kind = part.get("kind") if isinstance(part, dict) else None
        if isinstance(part, dict) and kind is None:
            if _text(part).strip() not in _EMPTY_FENCES:
                inside = None
            elif inside is None:
                inside = -1
            else:
                if inside >= 0:
                    path = path_from_uri(parts[inside].get("uri"))
                    if path:
                        shown[inside] = clean(path)
                inside = None
        elif kind == "codeblockUri" and inside == -1:
            inside = index
    return shown


# --------------------------------------------------------------------------- parts as text


def _text(value: Any) -> str:
    """The text of a string or an IMarkdownString, possibly wrapped in ``content``."""
    for _ in range(4):
        if isinstance(value, str):
            return value
        if not isinstance(value, dict):
            return ""
        value = value["value"] if "value" in value else value.get("content")
    return ""


def _plain(value: Any) -> str:
    """A line that the editor shows, with its nameless links ``[](file:///a/b.py#1-2)`` named."""
    text = clean(_text(value))

    def name(match: re.Match[str]) -> str:
        path = path_from_uri(match.group(1))
        return (path or match.group(1)).replace("\\", "/").rstrip("/").rpartition("/")[2]

    return re.sub(r"\[\]\(([^()\s]{1,4000})\)", name, text[:8000])


def _inline_reference(part: dict[str, Any]) -> str:
    """A file or symbol in the middle of a sentence, as code."""
    target = part.get("inlineReference")
    name = _str(part.get("name")) or (_str(target) if "/" not in _str(target) else "")
    if not name and isinstance(target, dict):
        name = _str(target.get("name"))
    if not name:
        path = path_from_uri(_dict(target).get("uri", target)) or ""
        name = path.replace("\\", "/").rstrip("/").rpartition("/")[2] or path
    if not name:
        return ""
    name = clean(name)
    return f"`` {name} ``" if "`" in name else f"`{name}`"


def _tree(part: dict[str, Any]) -> str:
    """A file tree as a list."""
    lines: list[str] = []
    stack: list[tuple[int, Any]] = [(0, part.get("treeData"))]
    while stack and len(lines) < 1000:
        depth, node = stack.pop()
        if isinstance(node, dict):
            label = _str(node.get("label")) or path_from_uri(node.get("uri")) or ""
            lines.append("  " * min(depth, 20) + "- " + label)
            stack.extend((depth + 1, child) for child in reversed(_list(node.get("children"))))
    return "\n" + "\n".join(lines) + "\n" if lines else ""


def _titled(part: dict[str, Any]) -> str:
    title = _text(part.get("title")).strip()
    body = _text(part.get("message")) or _text(part.get("content")) or _text(part.get("subtitle"))
    body = body.strip() or _text(part.get("description")).strip()
    return f"{title}\n\n{body}" if title and body and title != body else title or body


def _hook(part: dict[str, Any]) -> str:
    texts = (_str(part.get(key)) for key in ("hookType", "stopReason", "systemMessage"))
    return "\n\n".join(text for text in texts if text)


def _question_lines(part: dict[str, Any]) -> tuple[str, str]:
    """The questions of a form as a list, and the answers likewise."""
    answers = part.get("data")
    asked: list[str] = []
    answered: list[str] = []
    for question in _list(part.get("questions")):
        if not isinstance(question, dict):
            continue
        text = _text(question.get("title")) or _text(question.get("message"))
        text = text or _text(question.get("question"))
        options = [
            _str(option.get("label")) if isinstance(option, dict) else _str(option)
            for option in _list(question.get("options"))
        ]
        asked.append(text + "".join(f"\n- {option}" for option in options if option))
        answer = _dict(answers).get(_str(question.get("id")))
        if answer is not None:
            shown = _answer_text(answer)
            answered.append(f"{text}: {shown}" if text else shown)
    return "\n\n".join(asked), "\n".join(answered)


def _answer_text(answer: Any) -> str:
    if isinstance(answer, str):
        return answer
    if isinstance(answer, list):
        return ", ".join(_answer_text(item) for item in answer[:100] if not isinstance(item, list))
    if isinstance(answer, dict):
        texts = []
        for key in ("label", "selectedValue", "selectedValues", "freeformValue", "value"):
            value = answer.get(key)
            if isinstance(value, str) and value:
                texts.append(value)
            elif isinstance(value, list):
                texts += [item for item in value if isinstance(item, str)]
        return ", ".join(dict.fromkeys(texts)) or json_text(answer)
    return json_text(answer)


#: Parts that are the answer's own words.
_PROSE: dict[str, Callable[[dict[str, Any]], str]] = {
    "inlineReference": _inline_reference,  # see _Turn._answer
    "markdownContent": _text,
    "markdownVuln": _text,
    "treeData": _tree,
}
#: Parts in which the editor speaks: the kind of message, and the text.
_EVENTS: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "warning": ("notification", _text),
    "info": ("notification", _text),
    "systemNotification": ("notification", _text),
    "progressTaskSerialized": ("notification", _text),
    "progressTask": ("notification", _text),
    "confirmation": ("notification", _titled),
    "elicitationSerialized": ("notification", _titled),
    "elicitation2": ("notification", _titled),
    "planReview": ("notification", _titled),
    "pullRequest": ("notification", _titled),
    "hook": ("hook", _hook),
}
#: Parts that say nothing: that a tool or server is about to start, buttons, marks of the view.
_NOISE = frozenset(
    (
        "prepareToolInvocation",
        "mcpServersStarting",
        "undoStop",
        "codeblockUri",
        "progressMessage",
        "command",
        "multiDiffData",
        "extensions",
        "voiceProgress",
        "autoModeResolution",
        "externalToolInvocationUpdate",
        "mcpAuthenticationRequired",
        "disabledClaudeHooks",
        "references",
        "usedContext",
        "codeCitation",
    )
)


# --------------------------------------------------------------------------- what was asked


def _message_text(message: Any) -> str:
    """What was asked: text in version 1, else ``{text, parts}``. Handed-on messages may have their
    text in the parts only."""
    if isinstance(message, str):
        return clean(message)
    text = _dict(message).get("text")
    if isinstance(text, str) and text.strip():
        return clean(text)
    parts = _list(_dict(message).get("parts"))
    joined = "".join(_str(_dict(part).get("text")) for part in parts)
    return clean(joined or _str(text))


#: What the editor adds by itself to every request, and tools that were made available.
_NOT_ATTACHED = ("workspace", "tool", "toolset", "promptText")


def _attachments(data: Any) -> list[Attachment]:
    """Files, selections, images and texts that were sent along. Old ones have no kind."""
    attachments = []
    for variable in _list(_dict(data).get("variables")):
        if not isinstance(variable, dict):
            continue
        kind, value = _str(variable.get("kind")), variable.get("value")
        if kind in _NOT_ATTACHED:
            continue
        name = _str(variable.get("name")) or _str(variable.get("id"))
        if kind == "image":
            content = _bytes(value)
            media_type = _str(variable.get("mimeType")) or _image_type(content)
            attachments.append(Attachment("image", name, media_type or None, content))
            continue
        location = _dict(value)
        path = path_from_uri(location.get("uri", value)) if isinstance(value, dict) else None
        if path:
            shown = clean(path) + _line_range(location.get("range"))
            attachments.append(Attachment(kind or "file", shown))
        elif isinstance(value, str) and value:
            content = clean(value).encode("utf-8", "replace")
            attachments.append(Attachment(kind or "text", name, "text/plain", content))
        elif name:
            attachments.append(Attachment(kind or "reference", name))
    return attachments


def _bytes(value: Any) -> bytes | None:
    """The bytes of an image: base64, ``{"$base64": …}``, an array of numbers, or the object of
    numbers that JSON makes of an Uint8Array."""
    if isinstance(value, dict) and isinstance(value.get("$base64"), str):
        value = value["$base64"]
    if isinstance(value, str):
        try:
            data = value.partition(",")[2] if value.startswith("data:") else value
            return base64.b64decode(data, validate=True) or None
        except ValueError:
            return None
    if isinstance(value, dict):
        value = value.get("data") if isinstance(value.get("data"), list) else list(value.values())
    if isinstance(value, list) and value:
        try:
            return bytes(value)
        except (TypeError, ValueError):
            return None
    return None


def _image_type(data: bytes | None) -> str:
    for start, media_type in (
        (b"\x89PNG", "image/png"),
        (b"\xff\xd8", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"BM", "image/bmp"),
    ):
        if data is not None and data.startswith(start):
            return media_type
    return "image/webp" if data is not None and data[8:12] == b"WEBP" else ""


# --------------------------------------------------------------------------- defensive access


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _str(value: Any) -> str:
    return clean(value) if isinstance(value, str) else ""


def _without_password(url: str) -> str:
    scheme, separator, rest = clean(url).partition("://")
    host, slash, path = rest.partition("/")
    return scheme + separator + host.rpartition("@")[2] + slash + path if separator else clean(url)
