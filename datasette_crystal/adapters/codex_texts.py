"""Telling apart, in the texts of a rollout, a person's or the model's words from the harness's."""

from __future__ import annotations

from typing import Any

#: Tags that the harness wraps whole user-role texts in. A text counts as injected only when it
#: also ends with the closing tag: people quote these tags in their prompts.
_INJECTED_TAGS = (
    "environment_context",
    "user_instructions",
    "recommended_plugins",
    "turn_aborted",
    "skill",
    "subagent_notification",
    "user_action",
    "user_shell_command",
    "hook_prompt",
    "permissions instructions",
    "collaboration_mode",
    "model_switch",
    "personality_spec",
    "apps_instructions",
    "plugins_instructions",
    "skills_instructions",
)
_AGENTS_HEADING = "# AGENTS.md instructions"
_IDE_HEADINGS = (
    "# Context from my IDE setup:",
    "# Files mentioned by the user:",
    "## Active file:",
    "## Active selection of the file:",
    "## Open tabs:",
)
_REQUEST_MARKER = "## My request for "
_CITATION = "<oai-mem-citation>"
_CITATION_END = "</oai-mem-citation>"


def text_in(value: object) -> str:
    """``value`` where it is text, else ``""``."""
    return value if isinstance(value, str) else ""


def dict_in(value: object) -> dict[str, Any]:
    """``value`` where it is a dict, else an empty one."""
    return value if isinstance(value, dict) else {}


def list_in(value: object) -> list[Any]:
    """``value`` where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def squeezed(text: str) -> str:
    """``text`` without white space, to recognise what was told twice (events trim it)."""
    return "".join(text.split())


def without_citation(text: str) -> str:
    """An answer without the list of memories that it cites (0.128 on); its event lacks it too."""
    if _CITATION not in text:
        return text if text.strip() else ""
    start = text.rfind(_CITATION)
    end = text.find(_CITATION_END, start)
    if end >= 0 and not text[end + len(_CITATION_END) :].strip():
        text = text[:start].rstrip()
    return text if text.strip() else ""


def is_injected(text: str) -> bool:
    """Did the harness write this user-role text? It opens with one of the harness's headings, alone
    on its line, and also ends as such a text does: people quote the opening. (Of a long text the
    end may be missing, where somebody shortened a session.)"""
    start = text.lstrip()
    if start.startswith(_AGENTS_HEADING):
        body = start.partition("\n")[2].lstrip()
        if body.startswith("<INSTRUCTIONS>"):
            return _is_closed(body, "</INSTRUCTIONS>")
        return False
    if not start.startswith("<"):
        return False
    for tag in _INJECTED_TAGS:
        if start.startswith(tag, 1):
            after = start[len(tag) + 1 : len(tag) + 2]
            if after == " " or start.startswith(">\n", len(tag) + 1):
                return _is_closed(start, f"</{tag}>")
            return start.startswith(">", len(tag) + 1) and _wraps_all(start, tag)
    return False


def _is_closed(text: str, closing_tag: str) -> bool:
    if text.rstrip().endswith(closing_tag):
        return True
    return len(text) > 500 and closing_tag not in text


def _wraps_all(text: str, tag: str) -> bool:
    """``<tag>...</tag>`` and nothing else, on one line or several."""
    return text.rstrip().endswith(f"</{tag}>")


def split_ide_context(text: str) -> tuple[str, str]:
    """What an editor put before the prompt, and the prompt itself. The marker alone proves nothing
    - people quote it - so the text must also begin with a heading of the editor's."""
    if not text.lstrip().startswith(_IDE_HEADINGS):
        return "", text
    start = text.find("\n" + _REQUEST_MARKER)
    if start < 0:
        return "", text
    end = text.find("\n", start + 1)
    heading = text[start + 1 : end if end >= 0 else len(text)].rstrip()
    if not heading.endswith(":"):
        return "", text
    return text[:start].strip(), text[end + 1 :] if end >= 0 else ""


def wraps_image(blocks: list[Any], index: int) -> bool:
    """Does the text block at ``index`` only wrap a picture (``<image name=...>``, ``</image>``)?"""
    text = text_in(dict_in(blocks[index]).get("text")).strip()
    if text == "</image>":
        neighbour = index - 1
    elif text.startswith("<image") and text.endswith(">") and "\n" not in text:
        neighbour = index + 1
    else:
        return False
    if not 0 <= neighbour < len(blocks):
        return False
    return dict_in(blocks[neighbour]).get("type") == "input_image"


def image_name(tag: str) -> str:
    for key in ('path="', "name="):
        _, found, rest = tag.partition(key)
        if found:
            return rest.rstrip().rstrip('>"').strip()[:500]
    return ""


def shell_block(text: str) -> tuple[str, str]:
    """Command and result of a ``<user_shell_command>`` block."""
    command = text.partition("<command>")[2].rpartition("</command>")[0]
    result = text.partition("<result>")[2].rpartition("</result>")[0]
    return command.strip("\n"), result.strip("\n")
