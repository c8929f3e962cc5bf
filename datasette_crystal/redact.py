"""Takes secrets and identities out of texts: what :mod:`.publish` writes goes through here.

Secrets become ``[secret:kind:fingerprint]``. The fingerprint is keyed, so equal secrets stay equal
within one publication, and nobody can try guesses against it. Home directories, user names, host
names and e-mail addresses become ``user-1``, ``host-1``, ``email-1@redacted.invalid``, the same ones
everywhere. JSON stays JSON: it is redacted inside its decoded strings, and written again.

A name or secret may be learned from a text that comes after the one in which it stands alone.
So whoever redacts many texts goes over them twice: :meth:`Redactor.redact`, then
:meth:`Redactor.again`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .secret_rules import RULES, Finding, Rule, canonical, find
from .text import clean


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: What this module writes in place of something. Never redacted again, never a finding.
PLACEHOLDER = re.compile(
    r"\[secret:[a-z0-9-]+:[0-9]{12}\]|email-[0-9]+@redacted\.invalid"
    r"|(?<![\w-])(?:user|host|redacted)-[0-9]+(?![\w-])"
)

#: Names that say nothing about anybody, or that are so common as words that a text would be
#: unreadable without them. They are replaced in paths and prompts, and stay where they stand alone.
COMMON_NAMES = _words(
    """
    a about account action actions add admin administrator agent agents ai all and android anonymous
    any api app apple application apps archive art assets assistant author auto aws azure backup
    base bash bill bin bot bots branch build builder buildbot bug builds cache case chase chat chip
    ci claude clean client cloud code coder codespace codex colin commit common compile computer
    conda config console container containers copilot copy core cron cursor dash data database date
    dawn dean debian debug default deploy deployer desktop dev devcontainer develop developer devops
    dir disk dist docker document documents domain download downloads drew drop edit editor email
    engine engineer env error example faith fedora file files first flow folder form frank free from
    ftp function games general gem get git github gitlab gitpod global google grace grant grid group
    guest harmony home hope host hosts http https human hunter id image images in index info
    input install internal ios iris it item jack jay job jobs joy js jupyter kali key kernel kube
    lab laptop lib library line linux list local localhost log login logs mac machine macbook mail
    main manager map mark master mate max me media merge message mike min mint model module monitor
    mount my mysql name names net network new nginx nick nil no node nobody none notes null object
    office on opc open ops oracle order org other out output owner page pat path penny person pi
    pip play post postgres print private prod production profile program project projects prompt
    proxy public published py python queue quest ray react read redacted redis release remote repo repos
    reports rest rich rob robin rob rocky role root rose ruby run runner rust sales sam sandbox save
    scan script scripts search secret self server service session set setup share shared shell
    sierra site skip snap some source spark split sql src ssh staff stage staging start state status
    store string sudo summer support sync sys system team temp temporary test tester testing tests
    text the theme thread time tmp token tool tools trace trae tree true type ubuntu unit unknown
    update upload user username users usr vagrant val value van var vendor version victor video view
    violet virtual vm vscode web webmaster welcome wheel will win windows work worker workspace
    workspaces workstation world www xxx yaml you your yourname zip
    """
)
_GENERIC_HOSTS = _words("localhost host hostname ip6-localhost docker container server")

#: Addresses that are nobody's: of services, of documentation.
_KEPT_LOCALS = _words("git hg svn noreply no-reply donotreply do-not-reply user you your-email")
_KEPT_DOMAINS = re.compile(
    r"(?:^|\.)(?:example\.(?:com|org|net|edu)|example|invalid|test|localhost)\Z", re.IGNORECASE
)
_FILE_ENDINGS = _words("png jpg jpeg gif svg webp avif js mjs cjs jsx tsx css scss json html")

# Every repetition below is bounded, or followed by what it cannot itself match: linear on any text.
_SEPARATOR = r"(?:\\{0,8}/|\\{1,8}|%(?:25){0,3}(?:2[Ff]|5[Cc]))"
_BEFORE = re.compile(_SEPARATOR + r"\Z")
_NAME = r"\w(?:[\w.~-]{0,62}[\w~])?"
_HOME = re.compile(
    rf"({_SEPARATOR})((?i:home|users|documents%20and%20settings|documents and settings))"
    rf"({_SEPARATOR})({_NAME})((?:[ ][\w.'()-]{{1,20}}){{1,3}}(?=\\))?"
)
#: What may stand directly before ``/home/`` or ``/Users/`` without making it part of another path.
_ROOTS = re.compile(
    r"(?:(?:^|[^A-Za-z0-9])[A-Za-z](?::|%(?:25){0,3}3[Aa])?"
    r"|[/\\](?:var|export|usr|private|rootfs|Data|host|net|Volumes)"
    r"|(?:wsl\$|wsl\.localhost)[/\\]{1,8}[\w.-]{1,40}"
    r"|(?:file|vscode-remote|vscode-vfs|ssh|sftp)(?::|%3[Aa])(?:[/\\]|%2[Ff]){1,8}[\w.%+@-]{0,80}"
    r"|\\[nrtbf]|\[[0-9;]{1,8}m)\Z"
)
_DRIVE = re.compile(r"(?:[^A-Za-z0-9]|^)[A-Za-z](?::|%(?:25){0,3}3[Aa])?\Z")
_SLUG = re.compile(
    r"(?<![A-Za-z0-9])((?:-mnt-[a-z]|-[a-z]|-var|-export|[A-Za-z]-)?-(?:home|Users|users)-)"
    r"([A-Za-z0-9]{1,64})"
)
_AT = re.compile(r"(?:@|%40|\\u0040)([^\W_](?:[\w-]{0,62})(?:\.[\w-]{1,63}){0,8})", re.IGNORECASE)
_OWN_ADDRESS = re.compile(r"email-[0-9]{1,9}@redacted\.invalid\Z")
_ESCAPED = re.compile(r"[nrtbf]")
_COLOURED = re.compile(r"[0-9]{1,3}m")
_PROMPT_END = re.compile(
    r"(?:\x1b\[[0-9;]{0,8}m|\\\]|\\\[){0,3}(?::(?:\x1b\[[0-9;]{0,8}m)?\s?[~/]|\s[\w./~-]{1,80}\s?\]?[$#%](?:\s|\Z))"
)
_SSH = re.compile(r"\b(?:ssh|scp|rsync|sftp|mosh)\b[^\n]{0,80}\Z")
_REMOTE_HOST = re.compile(r"ssh-remote(?:\+|%(?:25){0,3}2[Bb])([A-Za-z0-9][\w.-]{1,62})")
_ENVIRONMENT = re.compile(
    r"\b(?:(USER|LOGNAME|USERNAME|SUDO_USER)|(HOSTNAME|COMPUTERNAME|HOST))=[\"']?([^\W_][\w.-]{1,62})"
    r"|\buid=\d{1,10}\(([\w.-]{1,62})\)"
)
_AUTHOR = re.compile(
    r"\b(?:Author|Committer|Commit|Signed-off-by|Co-authored-by|Co-Authored-By|Reviewed-by)"
    r":[ \t]{1,8}([^<>\n\r\\\"]{2,60}?)[ \t]{1,4}<([^<>\s]{3,100})>"
)
_BASE64 = re.compile(
    r"[A-Za-z0-9+/_-]{24,}(?:\n[A-Za-z0-9+/_-]{24,})*(?:\n[A-Za-z0-9+/_-]{1,76}(?==))?={0,2}"
)
_WORD = re.compile(r"\w+")
#: What sticks to a word without being a part of it: escapes of JSON and URLs, colours of a terminal.
_GLUE = re.compile(r"\\[nrtbf]|\[[0-9;]{1,8}m|%[25][fc]")
_TELLING_KEY = re.compile(
    r"key|secret|passw|pwd|token|auth|cookie|credential|private|dsn|url|conn|session", re.IGNORECASE
)
#: Pieces of a text that was streamed, as records of the stream hold them.
_PIECE = re.compile(
    r'"(?:delta|text|partial_json|content|chunk|token|data)"\s{0,4}:\s{0,4}"((?:[^"\\]|\\.){1,2000})"'
)

_LONG = 200  # characters of a text that is worth remembering
_DEEPEST = 4  # levels of JSON or base64 inside of one another


def is_placeholder(value: str) -> bool:
    """Whether nothing but what this module writes, and signs around it, is left of a finding."""
    rest = PLACEHOLDER.sub("", value)
    return rest != value and sum(char.isalnum() for char in rest) < 6


def users_in(path: str) -> list[str]:
    """The names whose home directory a path lies in; also in Claude's names of folders."""
    names = [match[4] + (match[5] or "") for match in _HOME.finditer(path)]
    return names + [match[2] for match in _SLUG.finditer(path)]


def distinctive(value: str) -> bool:
    """Whether a secret can be told from an ordinary word wherever it stands: then it is replaced
    there too, without the ``password=`` that gave it away."""
    if len(value) < 8 or PLACEHOLDER.search(value):
        return False
    kinds = (
        any(char.isdigit() for char in value),
        any(char.islower() for char in value) and any(char.isupper() for char in value),
        any(not char.isalnum() and char not in " -_./" for char in value),
    )
    return sum(kinds) >= 2 or (len(value) >= 16 and any(kinds)) or len(value) >= 40


#: What a :class:`Redactor` knows, and how much of it was news to other texts.
State = tuple[tuple[dict[str, Any], ...], int]
_STATE = ("_users", "_hosts", "_emails", "_alone", "_seen", "_secrets", "_needles", "_edges")


@dataclass(frozen=True)
class News:
    """Spellings of what a :class:`Redactor` learned after some texts were redacted: exact ones, and
    ones in lower case."""

    exact: list[str]
    folded: list[str]

    def __bool__(self) -> bool:
        return bool(self.exact or self.folded)

    def may_be_in(self, text: str) -> bool:
        """Whether :meth:`Redactor.again` may change a text. JSON may spell anything otherwise."""
        if "\\" in text and _looks_like_json(text):
            return True
        if any(spelling in text for spelling in self.exact):
            return True
        lowered = text.lower()
        return any(spelling in lowered for spelling in self.folded)


def digest(text: str) -> bytes:
    """Stands for a text where the text itself would take too much memory."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Redactor:
    """Redacts texts, and counts what it replaced: ``counts[where, kind]``, where ``where`` is what
    the caller says (``messages.content``), and never holds a value.

    ``rules`` find secrets. ``users`` and ``hosts`` are names known beforehand, from paths and from
    the machine; ``words`` are the user's own, replaced wherever they stand, also inside of other
    words; ``keep`` are names, addresses and values that stay. ``key`` makes the fingerprints; a random one
    unless given."""

    def __init__(
        self,
        rules: Sequence[Rule] = RULES,
        *,
        users: Iterable[str] = (),
        hosts: Iterable[str] = (),
        words: Iterable[str] = (),
        keep: Iterable[str] = (),
        key: bytes | None = None,
    ) -> None:
        self.rules = rules
        self.counts: Counter[tuple[str, str]] = Counter()
        self.key = key or secrets.token_bytes(32)
        self.own_keep = tuple(keep)
        self.own_words = tuple(words)
        self._keep = {name.lower() for name in self.own_keep}
        self._users: dict[str, str] = {}
        self._hosts: dict[str, str] = {}
        self._emails: dict[str, str] = {}
        self._alone: dict[str, tuple[str, str]] = {}  # name in lower case: kind, placeholder
        self._seen: Counter[str] = Counter()
        self._secrets: dict[str, str] = {}  # value, as learned: placeholder
        self._needles: dict[str, str] = {}  # every spelling of a secret: placeholder
        self._edges: dict[str, tuple[str, str]] = {}  # beginning or end of a secret: value, side
        #: Grows whenever something becomes known that other texts may hold, too.
        self.learned = 0
        #: Grows whenever a text gave anything to remember, be it only the number of a name.
        self.changes = 0
        #: Grows with every piece of base64 that is a text.
        self.decoded = 0
        #: Long texts in which a search found no secret, by :func:`digest`.
        self.clean: set[bytes] = set()
        self._pattern: re.Pattern[str] | None = None
        self._pattern_of = 0
        self._first_words: frozenset[str] = frozenset()
        self._spelled: dict[str, str] = {}
        self._folder_names: list[tuple[str, str]] = []
        self._folders_of = 0
        self._kinds = {part for rule in rules for part in re.split(r"\W+", rule.kind.lower())}
        self._words = {
            word.lower(): f"redacted-{number}"
            for number, word in enumerate(dict.fromkeys(w.lower() for w in self.own_words), 1)
        }
        self._word_pattern = (
            re.compile(
                "|".join(
                    [PLACEHOLDER.pattern]
                    + [
                        f"(?i:{'|'.join(re.escape(spelling) for spelling in _spellings(word))})"
                        for word in sorted(self._words, key=len, reverse=True)
                    ]
                )
            )
            if self._words
            else None
        )
        for name in users:
            self.add_user(name, trusted=True)
        for name in hosts:
            self.add_host(name, trusted=True)

    # ----------------------------------------------------------------- what is known

    def add_user(self, name: str, trusted: bool = False) -> str:
        """The placeholder of a user name. ``trusted``: it is somebody's for certain, so it is
        replaced where it stands alone, too, unless it is a common word."""
        key = name.lower()
        if key in self._keep:
            return name
        if key not in self._users:
            self._users[key] = f"user-{len(self._users) + 1}"
            self.changes += 1
            if not key.isalnum():
                self.learned += 1  # it is written otherwise in names of folders
        if self._may_stand_alone(key):
            self._seen[key] += 1
            self.changes += 1
            if (trusted and len(key) >= 3) or (len(key) >= 4 and self._seen[key] >= 3):
                self._stand_alone(key, "user-name", self._users[key])
        return self._users[key]

    def add_host(self, name: str, trusted: bool = False) -> str:
        """The placeholder of a host name."""
        key = name.lower()
        if key in self._keep or key in _GENERIC_HOSTS:
            return name
        short = key.removesuffix(".local").removesuffix(".lan").removesuffix(".home")
        if short not in self._hosts:
            self._hosts[short] = f"host-{len(self._hosts) + 1}"
            self.changes += 1
        if trusted and len(short) >= 4:
            for spelling in (short, key):
                self._stand_alone(spelling, "host-name", self._hosts[short])
        return self._hosts[short]

    def _may_stand_alone(self, key: str) -> bool:
        return not (
            key in self._alone
            or key in COMMON_NAMES
            or key in self._kinds
            or not any(char.isalpha() for char in key)
            or PLACEHOLDER.fullmatch(key)
        )

    def _stand_alone(self, key: str, kind: str, placeholder: str) -> None:
        if self._may_stand_alone(key):
            self._alone[key] = kind, placeholder
            self.learned += 1
            self.changes += 1

    def fingerprint(self, value: str) -> str:
        """Twelve digits that are the same for equal secrets under one key. Spellings of one value,
        as JSON and plain, are equal."""
        plain = canonical(value).replace("\r\n", "\n")
        digest = hmac.new(self.key, plain.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return f"{int.from_bytes(digest.digest()[:8], 'big') % 10**12:012d}"

    def learn(self, value: str, kind: str) -> str:
        """The placeholder of a secret, which from now on is replaced wherever it stands."""
        placeholder = self._secrets.get(value)
        if placeholder is None:
            kind = re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-") or "secret"
            placeholder = f"[secret:{kind}:{self.fingerprint(value)}]"
            self._secrets[value] = placeholder
            self.changes += 1
            if distinctive(value):
                self.learned += 1
                for spelling in _spellings(value):
                    self._needles.setdefault(spelling, placeholder)
                for edge, side in _edges(value):
                    self._edges.setdefault(edge, (value, side))
        return placeholder

    @property
    def values(self) -> list[str]:
        """Every value that must not be found anywhere in what was redacted: secrets that are
        recognisable wherever they stand, addresses, the user's words. For the last check."""
        return [
            *(value for value in self._secrets if distinctive(value)),
            *self._emails,
            *self._words,
        ]

    def keeps(self, value: str) -> bool:
        """Whether the user wants this to stay."""
        return bool(self._keep) and value.lower() in self._keep

    def keeps_bytes(self, value: str) -> bool:
        """The same of a finding in bytes, where the next column may stick to a value."""
        lowered = value.lower()
        return any(len(kept) >= 8 and kept in lowered for kept in self._keep)

    def is_clean(self, text: str) -> bool:
        """Whether a search found nothing in this text, as far as that is remembered."""
        return len(text) >= _LONG and digest(text) in self.clean

    def state(self) -> State:
        """All that is known by now, for :meth:`restore`, also of another one made with the same
        rules, words and key."""
        return tuple(dict(getattr(self, name)) for name in _STATE), self.learned

    def restore(self, state: State) -> None:
        """Knows again what was known at :meth:`state`, and nothing else."""
        for name, value in zip(_STATE, state[0], strict=True):
            known = getattr(self, name)
            known.clear()
            known.update(value)
        self.learned = state[1]
        self._pattern = None
        self._folders_of = -1

    def news(self, state: State) -> News:
        """What became known since ``state``, as a question to a text."""
        old = dict(zip(_STATE, state[0], strict=True))
        exact = [value for value in self._needles if value not in old["_needles"]]
        exact += [value for value in self._edges if value not in old["_edges"]]
        names = [name for name in self._users if name not in old["_users"]]
        folded = {re.sub(r"[^a-z0-9]", "-", name) for name in names} | set(names)
        for name in self._alone:
            if name not in old["_alone"]:
                folded |= {spelling.lower() for spelling in _spellings(name)}
        return News(exact, sorted(folded))

    @property
    def names(self) -> list[str]:
        """Names that were replaced wherever they stand alone."""
        return list(self._alone)

    # ----------------------------------------------------------------- redaction

    def redact(self, text: str, where: str = "") -> str:
        """A text without secrets and identities. Never raises; JSON stays valid JSON. What is
        redacted already does not change again."""
        before = self.learned
        text = self._redact(text, where, 0)
        for _ in range(8):  # a name may be learned after the place where it stands alone
            if self.learned == before:
                break
            before = self.learned
            text = self.again(text, where)
        return text

    def again(self, text: str, where: str = "") -> str:
        """Only what is known by now, without looking for further secrets: for texts that went
        through :meth:`redact` before the last of them was known."""
        before = self.learned
        text = self._redact(text, where, 0, search=False)
        return text if self.learned == before else self._redact(text, where, 0, search=False)

    def _redact(self, text: str, where: str, depth: int, search: bool = True) -> str:
        if not text:
            return text
        if depth < _DEEPEST and _looks_like_json(text):
            try:
                value = json.loads(text)
                return self._json(text, value, where, depth, search)
            except (ValueError, RecursionError):
                pass
        return self._plain(text, where, depth, search)

    def _plain(
        self,
        text: str,
        where: str,
        depth: int,
        search: bool,
        local: Sequence[tuple[str, str]] = (),
        decoded: bool | None = None,
    ) -> str:
        """``decoded``: whether secrets are searched in what is encoded, if not as in the text."""
        spans: list[tuple[int, int, str]] = []
        if search:
            for finding in self.findings(text):
                spans.append((finding.start, finding.end, self.learn(finding.value, finding.kind)))
        spans += self._known(text, local)
        if spans:
            text = self._replace(text, spans, where)
        if depth < _DEEPEST:
            if search:
                text = self._pieces(text, where)
            text = self._encoded(text, where, depth, search if decoded is None else decoded)
        return self._identities(text, where)

    def findings(self, text: str) -> list[Finding]:
        """The secrets in a text, placeholders and what is to stay left aside."""
        known = digest(text) if len(text) >= _LONG else b""
        if known in self.clean:
            return []
        found = [
            finding
            for finding in find(text, self.rules)
            if not ("-" in finding.value and is_placeholder(finding.value))
            and not self.keeps(finding.value)
        ]
        if known and not found:
            self.clean.add(known)
        return found

    def _known(self, text: str, local: Sequence[tuple[str, str]]) -> Iterator[tuple[int, int, str]]:
        for needles in (self._needles.items(), local):
            for needle, placeholder in needles:
                if needle in text:
                    start = text.find(needle)
                    while start >= 0:
                        yield start, start + len(needle), placeholder
                        start = text.find(needle, start + len(needle))
        for edge, (value, side) in self._edges.items():
            if edge not in text:
                continue
            start = text.find(edge)
            while start >= 0:
                end = start + len(edge)
                if side == "head":
                    place = value.find(edge) + len(edge)
                    while end < len(text) and place < len(value) and text[end] == value[place]:
                        end, place = end + 1, place + 1
                else:
                    place = value.rfind(edge)
                    while start > 0 and place > 0 and text[start - 1] == value[place - 1]:
                        start, place = start - 1, place - 1
                yield start, end, self._secrets[value]
                start = text.find(edge, end)

    def _replace(self, text: str, spans: list[tuple[int, int, str]], where: str) -> str:
        # the longer of two that overlap, and both of them gone
        spans.sort(key=lambda span: (span[0], -span[1]))
        merged: list[tuple[int, int, str]] = []
        for start, end, placeholder in spans:
            if merged and start < merged[-1][1]:
                last = merged[-1]
                name = last[2] if last[1] - last[0] >= end - start else placeholder
                merged[-1] = last[0], max(last[1], end), name
            else:
                merged.append((start, end, placeholder))
        parts: list[str] = []
        at = 0
        for start, end, placeholder in merged:
            parts += [text[at:start], placeholder]
            at = end
            self.counts[where, placeholder.split(":")[1]] += 1
        return "".join([*parts, text[at:]])

    def _pieces(self, text: str, where: str) -> str:
        """Secrets that a stream tells in pieces, one record after the other."""
        if '"' not in text or not any(
            key in text for key in ('"delta"', '"partial_json"', '"chunk"', '"token"', '"text"')
        ):
            return text
        pieces = list(_PIECE.finditer(text))
        if len(pieces) < 2:
            return text
        joined = "".join(piece[1] for piece in pieces)
        spans = []
        ends: list[tuple[int, re.Match[str]]] = []
        at = 0
        for piece in pieces:
            ends.append((at, piece))
            at += len(piece[1])
        for finding in self.findings(joined):
            touched = [
                (offset, piece)
                for offset, piece in ends
                if offset < finding.end and offset + len(piece[1]) > finding.start
            ]
            if len(touched) < 2:
                continue
            placeholder = self.learn(finding.value, finding.kind)
            for offset, piece in touched:
                start = piece.start(1) + max(0, finding.start - offset)
                end = piece.start(1) + min(len(piece[1]), finding.end - offset)
                spans.append((start, end, placeholder))
        return self._replace(text, spans, where) if spans else text

    def _encoded(self, text: str, where: str, depth: int, search: bool = True) -> str:
        """Base64 of a text that would not be left as it is goes as a whole."""
        if len(text) < 24:
            return text
        spans = []
        for match in _BASE64.finditer(text):
            token = match[0].replace("\n", "")
            for offset in range(4):
                decoded = _decode(token[offset:])
                if decoded is None:
                    continue
                self.decoded += 1
                counts, self.counts = self.counts, Counter()
                changed = self._redact(decoded, where, depth + 1, search) != decoded
                self.counts = counts
                if changed:
                    placeholder = f"[secret:base64:{self.fingerprint(token)}]"
                    spans.append((match.start(), match.end(), placeholder))
                    break
        return self._replace(text, spans, where) if spans else text

    # ----------------------------------------------------------------- JSON

    def _json(self, text: str, value: Any, where: str, depth: int, search: bool) -> str:
        local: list[tuple[str, str]] = []
        if search:
            for finding in self.findings(text):
                placeholder = self.learn(finding.value, finding.kind)
                plain = finding.value
                try:
                    plain = json.loads(f'"{finding.value}"')
                except ValueError:
                    pass
                local += [(spelling, placeholder) for spelling in {plain, finding.value}]
        escapes = "\\" in text

        def string(item: str, context: str | None = None) -> str:
            if not item:
                return item
            nested = depth + 1 < _DEEPEST and _looks_like_json(item)
            if nested:
                try:
                    inner = json.loads(item)
                    return self._json(item, inner, where, depth + 1, search)
                except (ValueError, RecursionError):
                    pass
            # what needs no escape stands in the text just so, and was looked at there
            look = search and escapes and json.dumps(item, ensure_ascii=False) != f'"{item}"'
            mine = local
            if search and context and _TELLING_KEY.search(context):
                mine = [*local, *self._pair(context, item)]
            return self._plain(item, where, depth, look, mine, search)

        changed = _map_strings(value, string)
        if search and isinstance(value, list) and len(value) > 1:
            changed = self._joined(changed, where)
        if changed == value and not (search and local and _outside_strings(value, local)):
            return text
        result = _json_like(text, changed)
        if search and any(self.findings(result)):
            # a number, say: what is left is taken out of the text itself, if that stays JSON
            plain = self._plain(result, where, _DEEPEST, True)
            try:
                json.loads(plain)
                result = plain
            except (ValueError, RecursionError):
                result = json.dumps(_map_scalars(changed, self._scalar(where)), ensure_ascii=False)
        return clean(result)

    def _scalar(self, where: str) -> Callable[[Any], Any]:
        def scalar(item: Any) -> Any:
            if isinstance(item, bool) or item is None or len(str(item)) < 6:
                return item
            return self.learn(str(item), "number") if not isinstance(item, str) else item

        return scalar

    def _pair(self, key: str, item: str) -> list[tuple[str, str]]:
        """Secrets of a value that only its key tells."""
        found = []
        for before, after in ((f'"{key}": "', '"'), (f"{key}=", "")):
            for finding in self.findings(before + item + after):
                start = finding.start - len(before)
                if start >= 0:
                    value = item[start : finding.end - len(before)]
                    if value:
                        found.append((value, self.learn(value, finding.kind)))
        return found

    def _joined(self, items: list[Any], where: str) -> list[Any]:
        """Pieces of one text in a list, as a stream gave them."""
        if not all(isinstance(item, str) for item in items) or len(items) > 10_000:
            return items
        joined = "".join(items)
        whole = {finding.value for item in items for finding in self.findings(item)}
        result = list(items)
        for finding in reversed(self.findings(joined)):
            if finding.value in whole:
                continue
            placeholder = self.learn(finding.value, finding.kind)
            at = 0
            for index, item in enumerate(items):
                start, end = max(finding.start - at, 0), min(finding.end - at, len(item))
                if start < end:
                    result[index] = result[index][:start] + placeholder + result[index][end:]
                    self.counts[where, placeholder.split(":")[1]] += 1
                at += len(item)
        return result

    # ----------------------------------------------------------------- identities

    def _identities(self, text: str, where: str) -> str:
        if self._word_pattern is not None:
            text = self._word_pattern.sub(lambda match: self._own_word(match, where), text)
        if "=" in text and any(name in text for name in ("USER=", "NAME=", "HOST=", "uid=")):
            for match in _ENVIRONMENT.finditer(text):
                if name := (match[1] and match[3]) or match[4]:
                    if not PLACEHOLDER.fullmatch(name):
                        self.add_user(name, trusted=True)
                elif not PLACEHOLDER.fullmatch(match[3]):
                    self.add_host(match[3], trusted=True)
        if "<" in text and any(name in text for name in ("Author:", "Commit", "-by:", "-By:")):
            for match in _AUTHOR.finditer(text):
                if not self._keeps_address(match[2]) and not PLACEHOLDER.search(match[1]):
                    self.add_user(match[1], trusted=True)
        if "ssh-remote" in text:
            text = _REMOTE_HOST.sub(lambda match: self._remote(match, where), text)
        if "@" in text or "%40" in text or "u0040" in text:
            text = self._addresses(text, where)
        text = self._homes(text, where)
        if "-home-" in text or "sers-" in text:
            text = self._folders(text, where)
        return self._names(text, where)

    def _own_word(self, match: re.Match[str], where: str) -> str:
        if PLACEHOLDER.fullmatch(match[0]):
            return match[0]
        self.counts[where, "word"] += 1
        for word, placeholder in self._words.items():
            if match[0].lower() in (spelling.lower() for spelling in _spellings(word)):
                return placeholder
        return "redacted-0"

    def _remote(self, match: re.Match[str], where: str) -> str:
        if PLACEHOLDER.fullmatch(match[1]):
            return match[0]
        self.counts[where, "host-name"] += 1
        host = self.add_host(match[1], trusted=True)
        return match[0][: match.start(1) - match.start()] + host

    def _keeps_address(self, address: str) -> bool:
        local, _, domain = address.lower().rpartition("@")
        if address.lower() in self._keep or domain in self._keep:
            return True
        if _KEPT_DOMAINS.search(domain):
            return True
        return local in _KEPT_LOCALS and "users.noreply" not in domain

    def _addresses(self, text: str, where: str) -> str:
        parts: list[str] = []
        at = 0
        remote = any(command in text for command in ("ssh", "scp", "rsync", "sftp", "mosh"))
        for match in _AT.finditer(text):
            start, first = match.start(), max(at, match.start() - 64)
            while start > first and (text[start - 1].isalnum() or text[start - 1] in "_.+-"):
                start -= 1
            if start == match.start() or _OWN_ADDRESS.search(
                text, max(0, start - 30), match.start()
            ):
                continue
            if start and text[start - 1] == "\\" and _ESCAPED.match(text, start, match.start() - 1):
                start += 1  # the n of \n
            elif start and text[start - 1] in "[;":
                coloured = _COLOURED.match(text, start, match.start() - 1)
                if coloured:
                    start = coloured.end()
            while start < match.start() and text[start] in ".+-":
                start += 1
            local, domain = text[start : match.start()], match[1].rstrip("-.")
            if not local:
                continue
            sign = text[match.start() : match.start(1)]
            end = match.start(1) + len(domain)
            last = domain.rpartition(".")[2]
            address = f"{local}@{domain}"
            if "." in domain and len(last) >= 2 and last.isalpha():
                if (
                    self._keeps_address(address)
                    or last.lower() in _FILE_ENDINGS
                    or PLACEHOLDER.fullmatch(address)
                ):
                    continue
                key = address.lower()
                if key not in self._emails:
                    self.changes += 1
                    self._emails[key] = f"email-{len(self._emails) + 1}@redacted.invalid"
                new, kind = self._emails[key], "email"
                if sign != "@":
                    new = new.replace("@", sign)
            elif local.lower() != "git" and (
                _PROMPT_END.match(text, end)
                or (remote and _SSH.search(text, max(at, start - 90), start))
            ):
                host, user = domain, local
                if not PLACEHOLDER.fullmatch(host):
                    host = self.add_host(host, trusted=True)
                if not PLACEHOLDER.fullmatch(user) and user.lower() not in COMMON_NAMES:
                    user = self.add_user(user, trusted=True)
                new, kind = f"{user}{sign}{host}", "host-name"
                if new == text[start:end]:
                    continue
            else:
                continue
            self.counts[where, kind] += 1
            parts += [text[at:start], new]
            at = end
        return "".join([*parts, text[at:]]) if parts else text

    def _homes(self, text: str, where: str) -> str:
        # looked for by their names: a separator stands everywhere
        places = []
        for word in ("home", "Users", "users", "HOME", "USERS", "ettings"):
            place = text.find(word)
            while place >= 0:
                if text[place + len(word) : place + len(word) + 1] in ("/", "\\", "%"):
                    places.append(place)
                place = text.find(word, place + len(word))
        if not places:
            return text
        parts: list[str] = []
        at = 0
        for place in sorted(places):
            if place < at:
                continue
            before = _BEFORE.search(text, max(at, place - 9), place)
            match = _HOME.match(text, before.start()) if before else None
            if match is None:
                continue
            new = self._home(match, where)
            if new != match[0]:
                parts += [text[at : match.start()], new]
                at = match.end()
        return "".join([*parts, text[at:]]) if parts else text

    def _home(self, match: re.Match[str], where: str) -> str:
        first, root, second, name, more = match.groups()
        name += more or ""
        if name.lower() in ("shared", "public", "default", "all users") or PLACEHOLDER.fullmatch(
            name
        ):
            return match[0]
        text, start = match.string, match.start()
        before = text[max(0, start - 120) : start]
        windows = root.lower() != "home" and (root != "Users" or bool(_DRIVE.search(before)))
        if root.lower() == "home" and root != "home":
            return match[0]
        known = name.lower() in self._users
        if not known:
            if windows and not _DRIVE.search(before) and "?" not in before[-6:]:
                return match[0]  # /users/5 of an API
            if (
                before
                and (before[-1].isalnum() or before[-1] in "_.-$")
                and not _ROOTS.search(before)
            ):
                return match[0]  # https://example.com/home/index
            if not any(char.isalpha() for char in name):
                return match[0]
        self.counts[where, "home-path"] += 1
        placeholder = self.add_user(name)
        return f"{first}{root}{second}{placeholder}"

    def _folders(self, text: str, where: str) -> str:
        """``-home-ana-shop``: Claude's names of folders. A user name that has other signs than
        letters and digits has hyphens there."""
        parts: list[str] = []
        at = 0
        for match in _SLUG.finditer(text):
            start, end = match.span(2)
            if start < at or PLACEHOLDER.match(text, start):
                continue
            if match[2].lower() == "user" and re.match(r"-[0-9]", text[end : end + 2]):
                continue
            for name, folder in self._hyphened():
                after = text[start + len(folder) : start + len(folder) + 1]
                if not after.isalnum() and text.lower().startswith(folder, start):
                    placeholder, end = self._users[name], start + len(folder)
                    break
            else:
                placeholder = self.add_user(match[2])
            self.counts[where, "folder-name"] += 1
            parts += [text[at:start], placeholder]
            at = end
        return "".join([*parts, text[at:]]) if parts else text

    def _hyphened(self) -> list[tuple[str, str]]:
        """Names with other signs than letters and digits, and how a folder's name has them."""
        if self._folders_of != len(self._users):
            self._folders_of = len(self._users)
            folders = [(name, re.sub(r"[^a-z0-9]", "-", name)) for name in self._users]
            self._folder_names = sorted(
                (pair for pair in folders if "-" in pair[1]), key=lambda pair: -len(pair[1])
            )
        return self._folder_names

    def _names(self, text: str, where: str) -> str:
        if not self._alone:
            return text
        if self._pattern is None or self._pattern_of != len(self._alone):
            spellings = {
                spelling.lower(): key for key in self._alone for spelling in _spellings(key)
            }
            self._spelled = spellings
            self._first_words = frozenset(
                match[0] for spelling in spellings if (match := _WORD.search(spelling))
            )
            names = "|".join(re.escape(s) for s in sorted(spellings, key=len, reverse=True))
            self._pattern = re.compile(
                r"(?:(?<!\w)|(?<=\\[nrtbf])|(?<=\[\dm)|(?<=\[\d\dm)|(?<=;\dm)|(?<=;\d\dm)"
                rf"|(?<=%2[Ff])|(?<=%5[Cc]))(?:{names})(?!\w)",
                re.IGNORECASE,
            )
            self._pattern_of = len(self._alone)
        lowered = text.lower()
        if len(self._spelled) <= 100:
            if not any(spelling in lowered for spelling in self._spelled):
                return text
        else:
            if "\\" in text or "\x1b" in text or "%" in text:
                lowered = _GLUE.sub(" ", lowered)
            if self._first_words.isdisjoint(_WORD.findall(lowered)):
                return text

        def name(match: re.Match[str]) -> str:
            # İ and its like are other letters in lower case
            key = self._spelled.get(match[0].lower())
            if key is None:
                return match[0]
            kind, placeholder = self._alone[key]
            self.counts[where, kind] += 1
            return placeholder

        return self._pattern.sub(name, text)


# --------------------------------------------------------------------------- helpers


def _spellings(value: str) -> list[str]:
    """How a value may be written in a text: plain, in JSON, in an address."""
    spellings = [
        value,
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(value)[1:-1],
        json.dumps(value)[1:-1].replace("/", "\\/"),
        quote(value, safe="", errors="surrogatepass"),
        value.replace("\\n", "\n").replace("\\/", "/").replace('\\"', '"'),
    ]
    return list(dict.fromkeys(spellings))


def _edges(value: str) -> Iterator[tuple[str, str]]:
    """Beginning and end of a long secret: enough of it that a title which was cut, or a piece of a
    stream, is recognised. What every secret of its kind begins with does not count."""
    if len(value) < 32 or "://" in value or "-----" in value:
        return
    body = value
    if value.startswith("eyJ") and value.count(".") >= 2:
        body = value.split(".", 1)[1]  # the head of a token is the same in all of them
        body = body[8:]
    head, tail = body[:20], value[-16:]
    for edge, side in ((head, "head"), (tail, "tail")):
        if (
            len(edge) >= 16
            and sum(char.isdigit() for char in edge) >= 1
            and len(set(edge)) >= 8
            and edge.isascii()
        ):
            yield edge, side


_PRINTABLE = bytes((9, 10, 13, *range(32, 127)))


def _decode(token: str) -> str | None:
    """The text that is base64 of, if it is text at all."""
    token = token.rstrip("=").replace("-", "+").replace("_", "/")
    head = token[:88]
    try:
        start = base64.b64decode(head[: len(head) // 4 * 4])
    except ValueError:
        return None
    if not start or len(start.translate(None, _PRINTABLE)) > 0.1 * len(start):
        return None
    if len(token) % 4 == 1:
        token = token[:-1]
    try:
        return base64.b64decode(token + "=" * (-len(token) % 4)).decode("utf-8", "replace")
    except ValueError:
        return None


def _looks_like_json(text: str) -> bool:
    first, last = text[:1], text[-1:]
    if first.isspace() or last.isspace():
        first, last = text[:200].lstrip()[:1], text[-200:].rstrip()[-1:]
    return (first, last) in (("{", "}"), ("[", "]"), ('"', '"'))


def _json_like(text: str, value: Any) -> str:
    """JSON in about the layout that the text has."""
    if "\n" in text.strip():
        return json.dumps(value, ensure_ascii=False, indent=2)
    if '": ' in text or ", " in text:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _map_strings(value: Any, change: Callable[..., str], context: str | None = None) -> Any:
    """A JSON value with every string changed, keys too."""
    if isinstance(value, str):
        return change(value, context)
    if isinstance(value, list):
        return [_map_strings(item, change, context) for item in value]
    if isinstance(value, dict):
        result: dict[str, Any] = {}
        for key, item in value.items():
            new = change(key)
            while new in result:
                new += "'"
            result[new] = _map_strings(item, change, key)
        return result
    return value


def _map_scalars(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, list):
        return [_map_scalars(item, change) for item in value]
    if isinstance(value, dict):
        return {key: _map_scalars(item, change) for key, item in value.items()}
    return change(value)


def _outside_strings(value: Any, local: Sequence[tuple[str, str]]) -> bool:
    """Whether something was found in JSON that is in none of its strings."""
    strings: list[str] = []

    def keep(item: str, context: str | None = None) -> str:
        strings.append(item)
        return item

    _map_strings(value, keep)
    return any(not any(needle in item for item in strings) for needle, _ in local)
