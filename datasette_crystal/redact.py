"""Takes secrets and identities out of texts: what :mod:`.publish` writes goes through here.

Secrets become ``[secret:kind:fingerprint]``. The fingerprint is keyed, so equal secrets stay equal
within one publication, and nobody can try guesses against it. Home directories, user names, host
names and e-mail addresses become ``user-1``, ``host-1``, ``email-1@redacted.invalid``, the same ones
everywhere. JSON stays JSON: its strings are decoded, redacted and, where that changed them, written
anew; all else in it stays as it was.

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
#: Letters, digits, and what is set above or below a letter.
_LETTER = r"\w\u0300-\u036f\u0900-\u0dff"
_NAME = rf"\w(?:[{_LETTER}.~-]{{0,62}}[{_LETTER}~])?"
_HOME = re.compile(
    rf"({_SEPARATOR})((?i:home|users|documents%20and%20settings|documents and settings))"
    rf"({_SEPARATOR})({_NAME})((?:(?:[ ]|%(?:25){{0,3}}20)[\w.'()-]{{1,20}}){{1,3}}"
    rf"(?=[\\/>\"'`\r\n]|%(?:25){{0,3}}(?:2[Ff]|5[Cc])|\Z))?"
)
_DRIVE = re.compile(
    r"(?:(?:[^A-Za-z0-9]|^)[A-Za-z](?::|%(?:25){0,3}3[Aa])"
    rf"|(?:^|[^\w.~/\\-]){_SEPARATOR}(?:(?:mnt|cygdrive|host_mnt|run{_SEPARATOR}desktop"
    rf"{_SEPARATOR}mnt{_SEPARATOR}host){_SEPARATOR})?[A-Za-z])\Z"
)
#: A path that goes on cannot begin with ``/home/`` ...
_GOES_ON = re.compile(r"(?:[\w.$~}*-]|[\"'`]@)\Z")
#: ... unless this stands before it: a disk, a machine, an address of a file, an option of a compiler.
_ROOTS = re.compile(
    r"(?:(?:^|[^\w-])-(?:[A-Za-z]|isystem|iquote|idirafter|isysroot|include)"
    rf"|(?:^|[^\w.~/\\%}}$*-]|:[/\\]{{2}}){_SEPARATOR}"
    r"(?:var|usr|private|rootfs|host|net|data|srv|nas|nfs|backups?|storage|export|newroot|sysroot"
    rf"|System{_SEPARATOR}Volumes{_SEPARATOR}Data"
    rf"|(?:mnt|media|Volumes|nfs|net|export|data|srv)(?:{_SEPARATOR}[\w.-][\w. -]{{0,39}}){{1,2}})"
    r"|(?:wsl\$|wsl\.localhost)[/\\]{1,8}[\w.-]{1,40}"
    r"|(?:file|vscode-remote|vscode-vfs|ssh|sftp)(?::|%3[Aa])(?:[/\\]|%2[Ff]){1,8}[\w.%+@-]{0,80}"
    r"|\\[nrtbf]|\[[0-9;]{0,20}[mK])\Z"
)
#: Pages of a site below ``/home``: nobody's name.
_PAGES = _words(
    """
    about account activity alerts analytics articles assets billing blog cart categories category
    checkout components contact create dashboard delete details dto edit entities explore faq
    favorites features feed help history hooks inbox index layout list login logout messages new
    news notifications order orders overview page pages pricing product products profile register
    reports routes search services settings shop signin signup stats store styles tabs tasks test
    tests utils views welcome widgets
    """
)
#: What stands before a page of a site, and not before a folder of a disk.
_ROUTE = re.compile(
    r"(?:href|to|action|routerLink|push|replace|redirect|navigate|navigateTo|visit)\]?\s?[=(]"
    r"\s?\{?[\"'`]\Z"
)
_REQUEST = re.compile(r"\b(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) [\"'`]?\Z")
#: What a home directory has in it: then it is somebody's for certain.
_OWN_FOLDER = re.compile(
    rf"{_SEPARATOR}(?:\.[a-z]|(?:AppData|Applications|Desktop|Documents|Downloads|Library|Pictures)\b)"
)
_SLUG = re.compile(
    r"(?<![\w-])((?:-mnt-[a-z]|-[a-z]|-var|-export|-data|-srv|-mnt-[a-z0-9]{1,20}|[A-Za-z]-)?"
    r"-(?:home|Users|users)-)([A-Za-z0-9]{1,64})"
)
_SIGN = r"(?:@|%(?:25){0,3}40|\\u0040|&#64;|&#[xX]40;|&commat;|㉿)"
_AT = re.compile(rf"{_SIGN}([^\W_](?:[\w-]{{0,62}})(?:\.[\w-]{{1,63}}){{0,8}})", re.IGNORECASE)
_OWN_ADDRESS = re.compile(r"email-[0-9]{1,9}@redacted\.invalid\Z")
_ESCAPED = re.compile(r"[nrtbf]")
_COLOURED = re.compile(r"[0-9]{1,3}m")
_COLOUR = r"\x1b\[[0-9;]{0,20}m"
#: After the host of a prompt: a path, and no doubt ...
_PROMPT_PATH = re.compile(rf"(?:{_COLOUR}|\\\]|\\\[){{0,3}}(?::(?:{_COLOUR})?\s?[~/]|\)-\[)")
#: ... or a folder, maybe a branch, and the sign of the shell, where the line began with it.
_PROMPT_END = re.compile(
    rf"(?:{_COLOUR}|\\\]|\\\[){{0,3}}[ ]"
    r"(?:(?:MINGW|MSYS|UCRT|CLANG)[0-9]{0,3}\b"
    r"|[\w./~-]{1,80}[ ]?\]?[$#%](?:\s|\Z)"
    r"|[~/][\w./~-]{0,80}(?:[ ](?:git:)?[\w(./*+!?-]{1,60}\)?){1,3}[ ]?\]?(?:[$#%>❯➜»λ](?:\s|\Z)|\r?\n))"
)
_PROMPT_BEGIN = re.compile(
    r"(?:^|[\r\n\"'`]|\\[nr])(?:[ ]{1,8}|\x1b\[[0-9;?]{0,20}[A-Za-z]|\[[0-9;]{1,20}m|\([\w. -]{1,40}\) ?"
    r"|[\[➜❯┌─(│]|\\\[|\\\]){0,8}\Z"
)
#: Versions of packages, which stand after the @ as a host does.
_TAGS = _words(
    "latest next beta alpha canary rc stable dev nightly experimental legacy main master head lts "
    "current workspace file npm link catalog release preview edge insiders tok"
)
_PACKAGE_SOURCES = _words("npm workspace file patch link portal git catalog virtual http https")
#: What follows the @ or ends what follows it in programs and in names of services.
_CODE_BEFORE = _words("this super return break continue")
_CODE_AFTER = _words("self this cls super")
_CODE_ENDINGS = _words(
    "service socket timer target mount automount slice scope path device swap weight weights bias "
    "grad shape values transpose reshape view inverse conj also apply run let with finish"
)
_SSH = re.compile(r"\b(?:ssh|scp|rsync|sftp|mosh)\b[^\n]{0,80}\Z")
_HOST = r"[A-Za-z0-9][A-Za-z0-9.-]{0,60}[A-Za-z0-9]"
_SSH_HOST = re.compile(
    r"(?:^|[\n;&|$#>`\"'(]|\\n|\bsudo )[ ]{0,4}\b(?:ssh|mosh|sftp|ssh-copy-id)"
    r"(?:[ ]{1,4}-(?:[46AaCfGgKkMNnqsTtVvXxYy]{1,8}|[bcDEeFIiJLlmOopQRSWw][ ]{0,2}[^\s\"']{1,100})"
    rf"(?=\s)){{0,8}}[ ]{{1,4}}({_HOST})(?=[\s\"'`;&|)\\]|\Z)"
)
_COPY = re.compile(r"\b(?:scp|rsync)[ ][^\n\\;&|]{1,300}")
_COPY_HOST = re.compile(rf"(?<=[ \"'])({_HOST}):(?=[~.]|/(?!/))")
#: What follows the word ssh in a sentence.
_NO_HOSTS = _words(
    "access agents and are as at authentication authorized because but by can cannot certificate "
    "command commands connect connection connections credentials daemon directly does doesn either "
    "etc fails failed fingerprint for forwarding from hangs hostkey if instead into is it keygen "
    "keys known like logins may not once onto or over password port private protocol public sessions "
    "should so still than that then there to tunnel tunneling tunnels url urls using via when which "
    "while will with without works github.com gitlab.com bitbucket.org"
)
_REMOTE_HOST = re.compile(r"ssh-remote(?:\+|%(?:25){0,3}2[Bb])([A-Za-z0-9][\w.-]{1,62})")
_USER_KEYS = frozenset(("USER", "LOGNAME", "USERNAME", "SUDO_USER"))
_HOST_KEYS = frozenset(("HOSTNAME", "COMPUTERNAME", "HOST"))
_ENVIRONMENT = re.compile(
    r"\b(?:(USER|LOGNAME|USERNAME|SUDO_USER)|(HOSTNAME|COMPUTERNAME|HOST))"
    r"(?:=[\"']?|\\?[\"']\s?:\s?\\?[\"'])([^\W_][\w.-]{1,62})"
    r"|\buid=\d{1,10}\(([\w.-]{1,62})\)"
)
_ADDRESS = re.compile(r"<([^<>\s@]{1,80}@[^<>\s@]{1,80})>")
#: Who a commit is by, before the address.
_AUTHOR = re.compile(
    r"(?:\b(?i:author|committer|commit|from|signed-off-by|co-authored-by|reviewed-by|tested-by"
    r"|acked-by|reported-by|tagger)[\"']?[:=][ \t]{0,8}[\"']?|(?:^|[\r\n\"'])(?:author|committer|tagger) )"
    r"([^<>\n\r\t\\\"]{2,60}?)[ \t]{0,4}\Z"
)
_FULL_NAME = re.compile(
    r"(?<![\w.'’-])([^\W\d_a-z][\w.'’-]{0,30}(?: [^\W\d_][\w.'’-]{0,30}){0,2} [^\W\d_a-z][\w.'’-]{0,30})\Z"
)
_GIT_NAME = re.compile(
    r"(?:((?:^|[\s\"'])user\.name=)|\bconfig [^\n]{0,40}\buser\.name[ \t]{1,8}"
    r"|\bGIT_(?:AUTHOR|COMMITTER)_NAME=)"
    r"(?:\\?[\"']([^\W\d_][^\"'\\\n\r$<>{]{1,60})"
    r"|([^\W\d_][^\s\"'\\$<>{=;&|]{1,60}(?(1)(?: [^\W\d_][^\s\"'\\$<>{=;&|]{0,30}){0,3}))(?=\\|\s|\Z))"
    r"|\[user\]\s{1,8}(?:email[^\n]{1,100}\s{1,8})?name[ ]?=[ ]?([^\s$<>{][^\n$<>{]{1,60})"
    r"|\(([^\W\d_][^()\n<>]{1,60}?)[ ]{1,40}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}[ ]{1,9}\d{1,9}\)"
)
_BASE64 = re.compile(
    r"[A-Za-z0-9+/_-]{24,}(?:\n[A-Za-z0-9+/_-]{24,})*(?:\n[A-Za-z0-9+/_-]{1,76}(?==))?={0,2}"
)
_WORD = re.compile(r"\w+")
#: What sticks to a word without being a part of it: escapes of JSON and URLs, colours of a terminal.
_GLUE = re.compile(r"\\u[0-9a-fA-F]{4}|\\[nrtbf]|\[[0-9;]{0,20}[mK]|%(?:25){0,3}[0-9a-fA-F]{2}")
_GLUED = re.compile(rf"(?:{_GLUE.pattern})\Z")
#: Words as they stand in names of programs: someName, SOME_NAME.
_PIECES = re.compile(r"[A-Z]*[^\W\d_A-Z]+|[A-Z]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_HEX = re.compile(r"[0-9a-f]*")
_EIGHTS = re.compile(r"(?s).{8}")
_FOURS = re.compile(r"(?s).{4}")
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
    names = [_name_of(match) for match in _HOME.finditer(path) if _is_home(match)]
    return [*names, *(match[2] for match in _SLUG.finditer(path))]


def _is_home(match: re.Match[str]) -> bool:
    """Whether a match of ``_HOME`` begins where a disk does, and not in the middle of a path, and is
    no page of a site."""
    before = match.string[max(0, match.start() - 120) : match.start()]
    root, name = match[2], match[4]
    disk = bool(_DRIVE.search(before))
    if root.lower() == "home":
        if root != "home":
            return False
    elif root != "Users" and not disk:
        return False  # /users/5 of an API
    if disk:
        return True
    if _GOES_ON.search(before) and not _ROOTS.search(before):
        return False  # https://example.com/home/index, src/home/components
    if name.lower() in _PAGES or _REQUEST.search(before):
        return False
    after = match.string[match.end(4) : match.end(4) + 1]
    return after in ("/", "\\", "%") or not _ROUTE.search(before)


def _name_of(match: re.Match[str]) -> str:
    """The name in a match of ``_HOME``. On Windows it may have spaces; where none but a backslash
    shows its end, every part of it must begin as a name does."""
    name, more = match[4], match[5]
    if not more:
        return name
    rest = re.sub(r"%(?:25)*20", " ", more)
    if "%" not in more and match.string[match.end() : match.end() + 1] != "\\":
        parts = [name, *rest.split()]
        disk = _DRIVE.search(match.string, max(0, match.start() - 120), match.start())
        if not disk or not all(part[0].isupper() for part in parts):
            return name
    return name + rest


_WEAK = _words(
    "abc abcd changeme dummy example fake foo foobar bar keycloak mariadb mongodb mongo mypassword "
    "mysecret pass passw passwd password passwort placeholder postgresql qwerty rabbitmq sample "
    "sqlite testpass testuser utf x xyz"
)
_VERSION = re.compile(
    r"v?[0-9]{1,4}[a-z]{1,6}[0-9]{0,4}\Z|[0-9]{8}T|[a-z]{1,3}[0-9]{1,3}x[0-9]{1,3}\Z"
)


def distinctive(value: str) -> bool:
    """Whether a secret can be told from an ordinary word wherever it stands: then it is replaced
    there too, without the ``password=`` that gave it away."""
    if len(value) < 8 or PLACEHOLDER.search(value):
        return False
    if value.isalnum() and not value.isalpha() and not value.isdigit():
        word = value.strip("0123456789").lower()
        if word not in COMMON_NAMES and word not in _WEAK and not _VERSION.match(value):
            return True
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
        self._spelled: dict[str, str] = {}  # every spelling of a name that stands alone: the name
        self._spelled_of = 0
        self._first_words: dict[str, list[str]] = {}  # first word of a spelling: spellings
        self._cut_words = False
        self._inside: set[str] = set()  # names that are known beside _ and digits, too
        self._index: dict[str, list[str]] = {}  # a piece of a needle or an edge: these
        self._folder_names: list[tuple[str, str]] = []
        self._folders_of = 0
        self._kinds = {part for rule in rules for part in re.split(r"\W+", rule.kind.lower())}
        self._kinds |= {"base64", "number", "invalid"}
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

    def add_user(self, name: str, trusted: bool = False, seen: bool = False) -> str:
        """The placeholder of a user name. ``trusted``: it is somebody's for certain, so it is
        replaced where it stands alone, too, unless it is a common word. ``seen``: it had a home
        directory in a text, which may be an example; three of them are enough."""
        key = name.lower()
        if key in self._keep:
            return name
        if key not in self._users:
            self._users[key] = f"user-{len(self._users) + 1}"
            self.changes += 1
            if not key.isalnum():
                self.learned += 1  # it is written otherwise in names of folders
        if (trusted or seen) and key not in self._alone and self._may_stand_alone(key):
            self._seen[key] += 1
            self.changes += 1
            if (trusted and len(key) >= 3) or (seen and len(key) >= 4 and self._seen[key] >= 3):
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
            or (" " in key and all(word in COMMON_NAMES for word in _WORD.findall(key)))
            or key in self._kinds
            or not any(char.isalpha() for char in key)
            or PLACEHOLDER.fullmatch(key)
        )

    def _stand_alone(self, key: str, kind: str, placeholder: str) -> None:
        if key not in self._alone and self._may_stand_alone(key):
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
                    if spelling not in self._needles:
                        self._needles[spelling] = placeholder
                        self._add_to_index(spelling)
                for edge, side in _edges(value):
                    if edge not in self._edges:
                        self._edges[edge] = value, side
                        self._add_to_index(edge)
        return placeholder

    def _add_to_index(self, needle: str) -> None:
        """Wherever a needle stands in a text that is cut into pieces of equal length, one of the
        pieces begins within any stretch of the needle that is as long. The stretch is one that few
        others have: tokens of one kind begin alike."""
        if len(needle) < 7:
            self._index.setdefault("", []).append(needle)
            return
        size = 8 if len(needle) >= 15 else 4
        last = len(needle) - 2 * size + 1
        stretches = [
            [needle[at : at + size] for at in range(first, first + size)]
            for first in sorted({0, last // 2, last})
        ]
        for piece in min(stretches, key=lambda s: sum(len(self._index.get(p, ())) for p in s)):
            needles = self._index.setdefault(piece, [])
            if needle not in needles:
                needles.append(needle)

    def _candidates(self, text: str) -> Iterable[str]:
        """The needles and edges that may be in a text. Takes time as the text is long, not as much is
        known."""
        if len(self._needles) + len(self._edges) <= 30:
            return (*self._needles, *self._edges)
        found = set(self._index.get("", ()))
        for pieces in (_EIGHTS.findall(text), _FOURS.findall(text)):
            for piece in self._index.keys() & set(pieces):
                found.update(self._index[piece])
        return sorted(found)  # in the same order every time

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
        self._spelled_of = self._folders_of = -1
        self._index.clear()
        for needle in (*self._needles, *self._edges):
            self._add_to_index(needle)

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
        self._cut_words = False
        text = self._search_again(self._redact(text, where, 0), where)
        for _ in range(8):  # a name may be learned after the place where it stands alone
            if self.learned == before:
                break
            before = self.learned
            text = self.again(text, where)
        return text

    def _search_again(self, text: str, where: str) -> str:
        """A name that was taken out of a word may leave what looks like a secret now."""
        if self._cut_words:
            self._cut_words = False
            text = self._redact(text, where, 0)
        return text

    def again(self, text: str, where: str = "") -> str:
        """Only what is known by now, without looking for further secrets: for texts that went
        through :meth:`redact` before the last of them was known."""
        before = self.learned
        self._cut_words = False
        text = self._redact(text, where, 0, search=False)
        if self.learned != before:
            text = self._redact(text, where, 0, search=False)
        return self._search_again(text, where)

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
        near = self._candidates(text)
        known = [(needle, self._needles[needle]) for needle in near if needle in self._needles]
        for needle, placeholder in (*known, *local):
            if needle in text:
                start = text.find(needle)
                while start >= 0:
                    yield start, start + len(needle), placeholder
                    start = text.find(needle, start + len(needle))
        for edge in near:
            if edge not in self._edges or edge not in text:
                continue
            value, side = self._edges[edge]
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

        def string(literal: str, context: str | None) -> str:
            item: str = json.loads(literal) if "\\" in literal else literal[1:-1]
            if not item:
                return literal
            new = ""
            if depth + 1 < _DEEPEST and _looks_like_json(item):
                try:
                    inner = json.loads(item)
                    new = self._json(item, inner, where, depth + 1, search)
                except (ValueError, RecursionError):
                    pass
            if not new:
                if (
                    context in _USER_KEYS
                    and re.fullmatch(_NAME, item)
                    and not PLACEHOLDER.fullmatch(item)
                ):
                    self.add_user(item, trusted=True)
                elif (
                    context in _HOST_KEYS
                    and re.fullmatch(_HOST, item)
                    and not PLACEHOLDER.fullmatch(item)
                    and (context != "HOST" or "." not in item)
                ):
                    self.add_host(item, trusted=True)
                # what has no escapes stands in the text just so, and was looked at there
                look = search and "\\" in literal
                mine: Sequence[tuple[str, str]] = local
                if search and context and _TELLING_KEY.search(context):
                    mine = [*local, *self._pair(context, item)]
                new = self._plain(item, where, depth, look, mine, search)
            if new == item:
                return literal
            return json.dumps(clean(new), ensure_ascii=literal.isascii())

        literals = list(_LITERAL.finditer(text))
        changed: list[str] = []
        key: str | None = None
        keys_changed = False
        for match in literals:
            literal = match[1]
            if match[2]:
                key = json.loads(literal)
                new = string(literal, None)
                keys_changed = keys_changed or new != literal
            else:
                before = text[max(0, match.start() - 60) : match.start()].rstrip()
                new = string(literal, key if before.endswith(":") else None)
            changed.append(new)
        if search and isinstance(value, list) and len(value) > 1:
            changed = self._joined(value, changed, where)
        if all(new == match[1] for new, match in zip(changed, literals, strict=True)) and not (
            search and local and _outside_strings(value, local)
        ):
            return text
        if keys_changed:
            changed = _distinct_keys(text, literals, changed)
        parts: list[str] = []
        at = 0
        for match, new in zip(literals, changed, strict=True):
            parts += [text[at : match.start(1)], new]
            at = match.end(1)
        result = "".join([*parts, text[at:]])
        if search and (left := self.findings(result)):
            # numbers: each becomes a string
            result = self._numbers(result, left, where)
            if any(self.findings(result)):
                # what is left is taken out of the text itself, if that stays JSON
                plain = self._plain(result, where, _DEEPEST, True)
                try:
                    json.loads(plain)
                    result = plain
                except (ValueError, RecursionError):
                    result = json.dumps(
                        _map_scalars(json.loads(result), self._scalar(where)), ensure_ascii=False
                    )
        return clean(result)

    def _numbers(self, text: str, findings: Sequence[Finding], where: str) -> str:
        """JSON with a string in place of every number that is a secret."""
        parts: list[str] = []
        at = 0
        waiting = sorted(findings, key=lambda finding: finding.start)
        for match in _LITERAL_OR_NUMBER.finditer(text):
            if match[1] is None:
                continue
            while waiting and waiting[0].end <= match.start():
                waiting.pop(0)
            if waiting and waiting[0].start < match.end():
                placeholder = self.learn(match[1], waiting[0].kind)
                self.counts[where, placeholder.split(":")[1]] += 1
                parts += [text[at : match.start()], f'"{placeholder}"']
                at = match.end()
        return "".join([*parts, text[at:]])

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

    def _joined(self, values: list[Any], literals: list[str], where: str) -> list[str]:
        """Pieces of one text in a list, as a stream gave them: their literals."""
        if not all(isinstance(item, str) for item in values) or len(values) > 10_000:
            return literals
        items: list[str] = [json.loads(literal) for literal in literals]
        found = self.findings("".join(items))
        if not found:
            return literals
        whole = {finding.value for item in items for finding in self.findings(item)}
        result = list(items)
        for finding in reversed(found):
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
        return [
            literal if new == old else json.dumps(clean(new), ensure_ascii=literal.isascii())
            for literal, old, new in zip(literals, items, result, strict=True)
        ]

    # ----------------------------------------------------------------- identities

    def _identities(self, text: str, where: str) -> str:
        if self._word_pattern is not None:
            text = self._word_pattern.sub(lambda match: self._own_word(match, where), text)
        if ("=" in text or ":" in text) and any(
            name in text for name in ("USER", "NAME", "HOST", "uid=")
        ):
            for match in _ENVIRONMENT.finditer(text):
                if name := (match[1] and match[3]) or match[4]:
                    if not PLACEHOLDER.fullmatch(name):
                        self.add_user(name, trusted=True)
                elif not PLACEHOLDER.fullmatch(match[3]) and (
                    match[2] != "HOST" or "." not in match[3]
                ):
                    self.add_host(match[3], trusted=True)
        if "<" in text and "@" in text:
            self._authors(text)
        if any(word in text for word in ("user.name", "_NAME=", "[user]", " +0", " -0")):
            for match in _GIT_NAME.finditer(text):
                name = (match[2] or match[3] or match[4] or match[5]).strip()
                if not PLACEHOLDER.search(name):
                    self.add_user(name, trusted=True)
        if "ssh-remote" in text:
            text = _REMOTE_HOST.sub(lambda match: self._remote(match, where), text)
        if "ssh" in text or "mosh" in text or "sftp" in text:
            text = _SSH_HOST.sub(lambda match: self._ssh(match, where), text)
        if "scp " in text or "rsync " in text:
            text = _COPY.sub(
                lambda match: _COPY_HOST.sub(lambda host: self._ssh(host, where), match[0]), text
            )
        if (
            "@" in text
            or "u0040" in text
            or ("%" in text and "40" in text)
            or ("&" in text and ("&#" in text or "&commat;" in text))
            or "㉿" in text
        ):
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

    def _authors(self, text: str) -> None:
        """Learns the names that stand before addresses."""
        for match in _ADDRESS.finditer(text):
            local, _, domain = match[1].partition("@")
            if domain.lower() != "localhost" and self._keeps_address(match[1]):
                continue
            before = text[max(0, match.start() - 90) : match.start()]
            found = _AUTHOR.search(before)
            name = found[1] if found else ""
            if not found and before[-1:] in (" ", "\t"):
                whole = _FULL_NAME.search(before.rstrip())
                name = whole[1] if whole else ""
            if not name or PLACEHOLDER.search(name):
                continue
            self.add_user(name, trusted=True)
            if "." not in domain and not PLACEHOLDER.fullmatch(domain) and found:
                self.add_user(local, trusted=True)
                self.add_host(domain, trusted=True)

    def _ssh(self, match: re.Match[str], where: str) -> str:
        host = match[1]
        lowered = host.lower()
        if (
            lowered in _NO_HOSTS
            or lowered in COMMON_NAMES
            or PLACEHOLDER.fullmatch(host)
            or not any(char.isalpha() for char in host)
            or _KEPT_DOMAINS.search(lowered)
        ):
            return match[0]
        word = host.isalpha()
        if word and match[0][:1] in "#(>":
            return match[0]  # a remark
        # "ssh works" in a sentence teaches nothing
        new = self.add_host(host, trusted=not word)
        if new == host:
            return match[0]
        self.counts[where, "host-name"] += 1
        start, end = match.start(1) - match.start(), match.end(1) - match.start()
        return match[0][:start] + new + match[0][end:]

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
            if (
                "." in domain
                and len(last) >= 2
                and (last.isalpha() or last.lower().startswith("xn--"))
                and "㉿" not in sign
            ):
                if (
                    self._keeps_address(address)
                    or _is_code(local, domain, text[end : end + 1])
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
            elif (
                local.lower() != "git"
                and text[start - 1 : start] not in ("/", "@", "\\")  # packages, macros
                and domain.lower() not in _PACKAGE_SOURCES
                and (
                    _PROMPT_PATH.match(text, end)
                    or (
                        domain.lower() not in _TAGS
                        and (
                            (
                                _PROMPT_END.match(text, end)
                                and _PROMPT_BEGIN.search(text, max(0, start - 60), start)
                            )
                            or (remote and _SSH.search(text, max(at, start - 90), start))
                        )
                    )
                )
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
        name = _name_of(match)
        if match[4].lower() in ("shared", "public", "default") or PLACEHOLDER.fullmatch(match[4]):
            return match[0]
        if not _is_home(match) or not any(char.isalpha() for char in name):
            return match[0]
        tail = "" if name != match[4] else match[5] or ""
        if tail:  # a name with spaces that is known ends where it ends
            whole = name + tail
            for known in self._spaced():
                if whole.lower().startswith(known) and not whole[len(known) :][:1].isalnum():
                    name, tail = whole[: len(known)], whole[len(known) :]
                    break
        self.counts[where, "home-path"] += 1
        after = match.string[match.end(4) : match.end(4) + 30]
        disk = (
            match[2].lower() != "home"
            and ":" in match.string[max(0, match.start() - 2) : match.start()]
        )
        placeholder = self.add_user(
            name, seen=bool(_OWN_FOLDER.match(after)) or (disk and after[:1] in ("/", "\\"))
        )
        return f"{match[1]}{match[2]}{match[3]}{placeholder}{tail}"

    def _spaced(self) -> list[str]:
        """Known names that have spaces in them, the longest first."""
        self._hyphened()
        return [name for name, _ in self._folder_names if " " in name]

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
        if self._spelled_of != len(self._alone):
            self._spell()
        lowered = text.lower()
        if len(self._spelled) <= 100:
            there = [spelling for spelling in self._spelled if spelling in lowered]
        else:
            plain = text
            if "\\" in text or "\x1b" in text or "%" in text:
                plain = _GLUE.sub(" ", text)
            found = {*_PIECES.findall(plain), *_LETTERS.findall(plain)}
            words = self._first_words.keys() & {word.lower() for word in found}
            there = [
                spelling
                for word in words
                for spelling in self._first_words[word]
                if spelling in lowered
            ]
        if not there:
            return text
        if len(lowered) != len(text):  # İ and its like are two in lower case
            lowered = "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
        spans: list[tuple[int, int, str]] = []
        for spelling in there:
            key = self._spelled[spelling]
            start = lowered.find(spelling)
            while start >= 0:
                end = start + len(spelling)
                if _stands_alone(text, start, end, key in self._inside):
                    spans.append((start, end, key))
                    self._cut_words = self._cut_words or not _stands_alone(text, start, end, False)
                start = lowered.find(spelling, end)
        if not spans:
            return text
        spans.sort(key=lambda span: (span[0], -span[1]))
        parts: list[str] = []
        at = 0
        for start, end, key in spans:
            if start < at:
                continue
            kind, placeholder = self._alone[key]
            self.counts[where, kind] += 1
            parts += [text[at:start], placeholder]
            at = end
        return "".join([*parts, text[at:]])

    def _spell(self) -> None:
        """Looks at how the names that stand alone may be written."""
        self._spelled = {
            spelling.lower(): key for key in self._alone for spelling in _spellings(key)
        }
        self._first_words = {}
        for spelling in self._spelled:
            if match := _LETTERS.search(_GLUE.sub(" ", spelling)):
                for word in (match[0], f"{match[0]}s"):
                    self._first_words.setdefault(word, []).append(spelling)
        self._inside = {
            key
            for key in self._alone
            if len(key) >= 5
            and not _HEX.fullmatch(key)
            and not any(key in kind for kind in self._kinds)
        }
        self._spelled_of = len(self._alone)


# --------------------------------------------------------------------------- helpers


def _stands_alone(text: str, start: int, end: int, inside: bool) -> bool:
    """Whether a part of a text is no part of a word. ``inside``: an underscore, a digit, or a capital
    letter after a small one ends a word, too."""
    before, after = text[start - 1 : start], text[end : end + 1]
    left = not (before.isalnum() or before == "_")
    right = not (after.isalnum() or after == "_")
    if left and right:
        return True
    if inside:
        part = text[start:end]
        if not (part.islower() or part.isupper() or part.istitle()):
            inside = False
    if not left:
        left = bool(_GLUED.search(text, max(0, start - 24), start)) or (
            inside
            and (
                before == "_"
                or before.isdigit()
                or text[start].isdigit()
                or (before.islower() and text[start].isupper())
            )
        )
    if left and not right and inside:
        last = text[end - 1]
        right = (
            after == "_"
            or after.isdigit()
            or last.isdigit()
            or (last.islower() and after.isupper())
            or (after in "sS" and not text[end + 1 : end + 2].isalpha())
        )
    return left and right


def _is_code(local: str, domain: str, after: str) -> bool:
    """Whether what has the form of an e-mail address is a label, a product of matrices or a unit."""
    first, last = domain.partition(".")[0], domain.rpartition(".")[2]
    if local in _CODE_BEFORE or first in _CODE_AFTER or last in _CODE_ENDINGS:
        return True
    # a method is called; who writes an address there ends it with one of these
    return after == "(" and last.lower() not in (
        "com",
        "org",
        "net",
        "edu",
        "gov",
        "de",
        "io",
        "dev",
    )


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


#: A string of JSON; with a colon behind it, it is a key.
_LITERAL = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?')
_LITERAL_OR_BRACE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}]')
_LITERAL_OR_NUMBER = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"|(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)'
)


def _distinct_keys(
    text: str, literals: Sequence[re.Match[str]], changed: Sequence[str]
) -> list[str]:
    """The new literals of JSON, where keys of one object that became equal are told apart."""
    result = list(changed)
    index = 0
    objects: list[dict[str, bool]] = []  # key: whether it is new
    for token in _LITERAL_OR_BRACE.finditer(text):
        if token[0] == "{":
            objects.append({})
        elif token[0] == "}":
            objects.pop()
        else:
            old, new = literals[index], result[index]
            if old[2]:
                keys = objects[-1]
                is_new = new != old[1]
                key = json.loads(new)
                while key in keys and (is_new or keys[key]):
                    key += "'"
                    is_new = True
                    result[index] = json.dumps(key, ensure_ascii=new.isascii())
                keys[key] = is_new
            index += 1
    return result


def _strings(value: Any) -> Iterator[str]:
    """The strings of a JSON value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _strings(item)


def _map_scalars(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, list):
        return [_map_scalars(item, change) for item in value]
    if isinstance(value, dict):
        return {key: _map_scalars(item, change) for key, item in value.items()}
    return change(value)


def _outside_strings(value: Any, local: Sequence[tuple[str, str]]) -> bool:
    """Whether something was found in JSON that is in none of its strings."""
    strings = list(_strings(value))
    return any(not any(needle in item for item in strings) for needle, _ in local)
