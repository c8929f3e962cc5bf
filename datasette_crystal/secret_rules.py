"""Finds secrets in text: keys, tokens, passwords, private keys.

One finder for everything: ``datasette crystal scan`` reports what it finds, publishing replaces it,
and the check of a publication looks for it again.

Two sorts of rules. Most know a secret by its *form*: a prefix that its service gives to every key.
The others know it by its *context* (``by_context``): a name such as ``DB_PASSWORD`` before it, a
header, an option of a command, a place in a URL; what they point at must look like a secret and not
like a placeholder or a piece of code.

Speed and safety. A pattern is tried only where one of its literals stands, which is found with
``str.find``, and every repetition in a pattern is bounded, so that time grows linearly with the text,
whatever the text is. This module imports nothing of Datasette.
"""

from __future__ import annotations

import base64
import binascii
import bisect
import itertools
import json
import math
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Rule:
    """How to know one kind of secret.

    ``pattern`` is tried only in texts that hold one of ``literals`` (in any case, and to be written
    in lower case, with ``ignore_case``). ``reach`` says how far before a literal a match may begin:
    0 where the pattern begins with it. With ``None``, or without literals, the whole text is
    searched. ``group`` is the part of a match that is the secret; where that group did not take part
    there is no finding. ``check`` may refuse a match. ``in_word`` promises that a match is part of 20 or
    more characters without white space between, or the end of what was cut off. ``spans`` finds what
    no pattern can, in texts that hold one of ``literals``: where secrets begin and end.
    """

    kind: str
    pattern: str
    literals: tuple[str, ...] = ()
    group: int | str = 0
    check: Callable[[re.Match[str]], bool] | None = None
    description: str = ""
    ignore_case: bool = False
    reach: int | None = 0
    by_context: bool = False
    in_word: bool = False
    spans: Callable[[str], Iterator[tuple[int, int]]] | None = None
    regex: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        flags = re.ASCII | (re.IGNORECASE if self.ignore_case else 0)
        pattern = self.pattern
        if self.literals and self.reach:
            pattern = rf"(?s:.{{0,{self.reach}}}?)(?P<found>{pattern})"
        regex = re.compile(pattern, flags)
        object.__setattr__(self, "regex", regex)
        if self.group == 0 and "found" in regex.groupindex:
            object.__setattr__(self, "group", "found")


@dataclass(frozen=True)
class Finding:
    """A secret in a text: its kind, where it begins and ends (in characters), and itself. What is
    printed of a finding does not show the secret."""

    kind: str
    start: int
    end: int
    value: str = field(repr=False)

    @property
    def preview(self) -> str:
        return mask(self.value)


class RuleError(Exception):
    """A file of rules that can't be used; the message is one line."""


def mask(value: str) -> str:
    """A hint at a secret that is of no use to anybody: its length, and of a long one the first four
    characters - with most keys the prefix of the service."""
    length = f"({len(value)} characters)"
    if value.startswith("-----BEGIN"):
        return f"-----BEGIN... {length}"
    shown = (
        value[:4] if len(value) >= 24 and value[:4].isascii() and value[:4].isprintable() else ""
    )
    return f"{shown}... {length}"


# --- Does it look like a secret, or like an example of one? -------------------------------------

_MADE_UP = re.compile(
    r"example|placeholder|changeme|change[_-]me|replace|redacted|insert[_-]|dummy|fake|not[_-]?a?[_-]?real"
    r"|your[_-]?|my[_-](?:api|secret|token|password|key)|here$|_here|xxxx|\*\*\*|\.\.\.|<|>|\[secret:"
    r"|todo|sample|deadbeef|0123456789|1234567890|abcdefghij|123456789abc|qwertyui",
    re.IGNORECASE,
)

#: Values that documentation prints, and keys that everybody has.
_PUBLISHED = (
    "4eC39HqLyjWDarjtT1zdp7dc",  # Stripe's documentation
    "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",  # the sample of jwt.io
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq",  # Azure's storage emulator
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw",  # Cosmos
)


def _entropy(value: str) -> float:
    """Shannon entropy of the characters, in bits each."""
    length = len(value)
    return -sum(n / length * math.log2(n / length) for n in map(value.count, set(value)))


def made_up(value: str) -> bool:
    """Whether a value is an example: words such as "your", runs of one character or of neighbours
    in the alphabet, a block that repeats, or one of the values that documentation prints."""
    head = value[:120]
    if _MADE_UP.search(head) or any(known in value for known in _PUBLISHED):
        return True
    run = step = 1
    for before, after in itertools.pairwise(head):
        run = run + 1 if after == before else 1
        step = step + 1 if ord(after) - ord(before) == 1 else 1
        if run >= 6 or step >= 8:
            return True
    if len(head) >= 16:
        if len(set(head)) < 6:
            return True
        quads = Counter(head[i : i + 4] for i in range(len(head) - 3))
        if max(quads.values()) * 8 > len(head):
            return True
    return False


_CHUNK = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_HEXADECIMAL = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def looks_random(value: str, shortest: int = 16) -> bool:
    """Whether a value was drawn by a machine: letters, cases and digits change too often for words,
    names and versions."""
    if len(value) < shortest or made_up(value):
        return False
    value = value[:256]
    digits = sum(map(str.isdigit, value))
    upper = any(map(str.isupper, value))
    lower = any(map(str.islower, value))
    if not (digits or (upper and lower and len(value) >= 20)) or not (upper or lower):
        return False
    if len(value) >= 24 and _HEXADECIMAL.fullmatch(value):
        return bool(digits) and _entropy(value) >= 2.8
    chunks = _CHUNK.findall(value)
    if not chunks:
        return False
    mean = sum(map(len, chunks)) / len(chunks)
    # one long run of letters among many signs is chance
    limit = 2.7 if upper and lower else 4.2 if len(value) >= 28 and digits >= 3 else 3.4
    return mean < limit and _entropy(value) >= (2.8 if len(value) < 20 else 3.0)


def _real(match: re.Match[str]) -> bool:
    """The check of the rules that know a secret by its form."""
    groups = match.re.groupindex
    value = match.group("value" if "value" in groups else "found" if "found" in groups else 0)
    return not made_up(value)


# --- Secrets known by their form -----------------------------------------------------------------

#: A key begins here: not inside a longer word, but right after an escape (\n, \u003d, %3D), or the
#: colour codes of a terminal.
_LEFT = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9A-Fa-f]{2})"
    r"|(?<=\[\dm)|(?<=[\[;]\d\dm))"
)
#: The same for what may stand inside of base64url text otherwise.
_LEFT_STRICT = _LEFT.replace("[A-Za-z0-9])", "[A-Za-z0-9_-])", 1)
_END = r"(?![A-Za-z0-9])"
_WORD = "A-Za-z0-9"
_B64 = r"A-Za-z0-9_\-"


def _key(
    kind: str,
    prefixes: str,
    characters: str,
    least: int,
    most: int | None = None,
    description: str = "",
    middle: str = "",
    tail: str = "",
) -> Rule:
    """A rule for keys with a prefix: one of ``prefixes`` (separated by spaces), ``middle`` (a
    pattern), then ``least`` to ``most`` of ``characters``, then ``tail``. Also what is left of such a
    key where a text was cut off: titles end in "…", tool outputs just end."""
    most = least if most is None else most
    literals = tuple(prefixes.split())
    one = "|".join(map(re.escape, literals))
    cut = rf"[{characters}]{{6,{most}}}(?=…|\.\.\.)|[{characters}]{{10,{most}}}\Z"
    return Rule(
        kind,
        rf"{_LEFT}(?P<prefix>{one}){middle}"
        rf"(?:(?P<whole>[{characters}]{{{least},{most}}}{tail}){_END}|(?P<cut>{cut}))",
        literals,
        check=_is_key,
        description=description,
    )


#: Prefixes of keys that are, or begin, ordinary words and names in code, however long they are.
_WORDLIKE = re.compile(
    r"(?!gh[pousr]_)(?:\w{1,3}[._-]?|\w{3,4}_|secret_|dapi|EAAA|LTAI|AKID|AKCp|ATBB|rubygems_|api_org_|v1\.0-)"
)


def _is_key(match: re.Match[str]) -> bool:
    """The check of the rules for keys with a prefix. What follows the prefix must be drawn and not
    made of words: a little of it for a whole key, whose length tells much already; more of it for
    what is left of a key that was cut off; most of it where the prefix tells little."""
    if made_up(match.group()):
        return False
    wordlike = bool(_WORDLIKE.fullmatch(match.group("prefix")))
    whole = match.group("whole") is not None
    body = match.group("whole") or match.group("cut")
    # a number at the end, or a version at the beginning, are usual in names
    digits = sum(map(str.isdigit, re.sub(r"^v\d{1,2}[_.-]|\d+$", "", body)))
    mean = _mean_chunk(body)
    if whole:
        # names with signs between their words have short words too
        few = 4.2 if body.isalnum() and not wordlike else 3.2
        capitals = body.isupper() and body.isalnum() and not wordlike
        return mean < (8.0 if capitals and digits else few if digits < 3 else 4.2)
    if len(body) < (16 if wordlike else 6):
        return False
    mixed = any(map(str.isupper, body)) and any(map(str.islower, body))
    if mixed and len(body) < 16 and digits and mean < 1.8 and not wordlike:
        return True
    if mixed and len(body) >= 16:
        return mean < 2.7 and (digits >= 2 or mean < 2.3)
    return digits >= (3 if wordlike else 2) and mean < (2.7 if wordlike or len(body) < 10 else 3.4)


def _mean_chunk(value: str) -> float:
    """How long the runs of letters of one case and capitalised words are; numbers are no words."""
    chunks = _CHUNK.findall(value[:256])
    lengths = [2 if chunk.isdigit() else len(chunk) for chunk in chunks]
    return sum(lengths) / len(lengths) if lengths else 99.0


_HEX = "0-9a-f"

_FORMS = [
    _key("anthropic-key", "sk-ant-", _B64, 24, 250, "Anthropic: API, admin and OAuth keys"),
    _key("openrouter-key", "sk-or-", _HEX, 60, 70, "OpenRouter", middle=r"v1-"),
    _key(
        "openai-key",
        "sk-proj- sk-svcacct- sk-admin- sk-None-",
        _B64,
        24,
        250,
        "OpenAI: keys of projects, service accounts and administrators",
    ),
    Rule(
        "openai-key",
        rf"{_LEFT_STRICT}sk-(?:[a-z]{{2,12}}-)?[A-Za-z0-9]{{20}}T3BlbkFJ[A-Za-z0-9]{{20}}{_END}",
        ("sk-",),
        check=_real,
        description="OpenAI: keys of the first form",
    ),
    Rule(
        "llm-key",
        rf"{_LEFT_STRICT}sk-(?:[a-z]{{2,8}}-){{0,2}}(?P<value>[A-Za-z0-9]{{32,64}}){_END}",
        ("sk-",),
        check=lambda match: looks_random(match.group("value")),
        description="Services that took over the form of OpenAI's keys, such as DeepSeek or Moonshot",
    ),
    _key(
        "github-token", "ghp_ gho_ ghu_ ghs_ ghr_", _WORD, 36, 255, "GitHub: personal, OAuth, app"
    ),
    Rule(
        "github-token",
        rf"{_LEFT}ghs_\d{{1,12}}_eyJ[{_B64}.]{{40,2000}}",
        ("ghs_",),
        check=_real,
        description="GitHub: installation tokens of the long form",
    ),
    _key("github-token", "github_pat_", _WORD + "_", 50, 255, "GitHub: fine-grained"),
    _key(
        "gitlab-token",
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct- glwt- "
        "GR1348941",
        _B64,
        20,
        300,
        "GitLab: personal, deploy, runner, CI job, trigger, feed, mail, agent, OAuth, SCIM tokens",
        tail=r"(?:\.[0-9a-z]{2}\.[0-9a-z]{7,9})?",
    ),
    Rule(
        "aws-access-key-id",
        rf"{_LEFT_STRICT}(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{{16}}(?![A-Za-z0-9_+/=-])",
        ("AKIA", "ASIA", "ABIA", "ACCA"),
        check=_real,
        description="Amazon Web Services: id of an access key",
    ),
    Rule(
        "google-api-key",
        rf"{_LEFT}AIza[{_B64}]{{35}}(?![{_B64}])",
        ("AIza",),
        check=_real,
        description="Google: API keys",
    ),
    _key("google-oauth-secret", "GOCSPX-", _B64, 28, 28, "Google: secret of an OAuth client"),
    _key("google-oauth-token", "ya29.", "." + _B64, 30, 2000, "Google: OAuth access tokens"),
    Rule(
        "google-oauth-token",
        rf"{_LEFT_STRICT}1//0[{_B64}]{{40,200}}",
        ("1//0",),
        check=_real,
        description="Google: OAuth refresh tokens",
    ),
    Rule(
        "azure-key",
        r"(?:AccountKey|SharedAccessKey|SharedSecret|AccessKey)=(?P<value>[A-Za-z0-9+/]{42,86}={1,2})",
        ("AccountKey=", "SharedAccessKey=", "SharedSecret=", "AccessKey="),
        group="value",
        check=_real,
        description="Azure: keys in the connection strings of storage, service bus and others",
    ),
    Rule(
        "azure-signature",
        r"[?&;](?:amp;)?sig=(?P<value>[A-Za-z0-9%+/_-]{40,90}(?:%3[dD]|=)?)",
        ("sig=",),
        group="value",
        check=lambda match: looks_random(match.group("value"), 40),
        reach=5,
        description="Azure: signatures in URLs that grant access",
    ),
    Rule(
        "azure-client-secret",
        rf"{_LEFT_STRICT}[A-Za-z0-9_~.]{{3}}\dQ~[A-Za-z0-9_~.-]{{31,34}}",
        ("Q~",),
        check=_real,
        reach=4,
        description="Azure: client secrets of Entra ID",
    ),
    _key(
        "slack-token",
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.xoxp- xoxe.xoxb- xapp-",
        _WORD + "%-",
        20,
        300,
        "Slack: bot, user, app, session and configuration tokens",
    ),
    Rule(
        "slack-webhook",
        r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/(?P<value>[A-Za-z0-9/_-]{30,120})",
        ("hooks.slack",),
        group="value",
        check=_real,
        description="Slack: webhook URLs",
    ),
    Rule(
        "discord-token",
        rf"{_LEFT_STRICT}[MNO][A-Za-z0-9_-]{{22,27}}\.[A-Za-z0-9_-]{{6}}\.[A-Za-z0-9_-]{{27,40}}(?![{_B64}.])",
        ("MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"),
        check=_real,
        description="Discord: bot tokens",
    ),
    Rule(
        "discord-webhook",
        rf"/api/(?:v\d{{1,2}}/)?webhooks/\d{{17,20}}/(?P<value>[{_B64}]{{60,80}})",
        ("/api/webhooks/", "/api/v"),
        group="value",
        check=_real,
        description="Discord: webhook URLs",
    ),
    _key(
        "stripe-key",
        "sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_ rk_prod_",
        _WORD,
        16,
        250,
        "Stripe and Clerk: secret and restricted keys",
    ),
    _key("webhook-secret", "whsec_", _WORD + "+/", 24, 100, "Stripe, Svix: secrets", tail="={0,2}"),
    Rule(
        "twilio-key",
        rf"{_LEFT_STRICT}SK[0-9a-f]{{32}}(?![{_B64}])",
        ("SK",),
        check=_real,
        description="Twilio: API keys",
    ),
    Rule(
        "sendgrid-key",
        rf"{_LEFT}SG\.[{_B64}]{{16,32}}\.[{_B64}]{{32,64}}(?![{_B64}])",
        ("SG.",),
        check=_real,
        description="SendGrid",
    ),
    Rule(
        "mailgun-key",
        rf"{_LEFT_STRICT}key-[0-9a-f]{{32}}{_END}",
        ("key-",),
        check=_real,
        description="Mailgun: keys of the first form",
    ),
    Rule(
        "mailgun-key",
        r"(?<![0-9a-f-])[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![0-9a-f-])",
        ("mailgun",),
        check=_real,
        ignore_case=True,
        reach=None,
        description="Mailgun, in a text that names it",
    ),
    Rule(
        "mailchimp-key",
        rf"{_LEFT_STRICT}[0-9a-f]{{32}}-us\d{{1,2}}{_END}",
        ("-us",),
        check=_real,
        reach=32,
        description="Mailchimp",
    ),
    _key("brevo-key", "xkeysib- xsmtpsib-", _HEX, 64, 64, "Brevo", tail=r"-[A-Za-z0-9]{16}"),
    _key("resend-key", "re_", _WORD, 22, 26, "Resend", middle=r"[A-Za-z0-9]{8}_"),
    _key("postmark-key", "PMAK-", _HEX, 24, 24, "Postman", tail=r"-[0-9a-f]{34}"),
    _key("npm-token", "npm_", _WORD, 36, 36, "npm"),
    _key("pypi-token", "pypi-AgE", _B64, 50, 1000, "PyPI"),
    _key("rubygems-key", "rubygems_", _HEX, 48, 48, "RubyGems"),
    _key("nuget-key", "oy2", "a-z0-9", 43, 43, "NuGet"),
    _key("docker-token", "dckr_pat_ dckr_oat_", _B64, 27, 40, "Docker Hub"),
    _key("huggingface-token", "hf_ api_org_", _WORD, 30, 40, "Hugging Face"),
    _key("supabase-key", "sbp_", _HEX, 40, 40, "Supabase: personal tokens"),
    _key("supabase-key", "sb_secret_", _B64, 20, 60, "Supabase: secret keys"),
    _key("supabase-key", "sbp_oauth_", _HEX, 40, 40, "Supabase: OAuth"),
    Rule(
        "telegram-token",
        rf"(?:{_LEFT_STRICT}|(?<=bot))\d{{8,10}}:AA[{_B64}]{{32,35}}(?![{_B64}])",
        (":AA",),
        check=_real,
        reach=10,
        description="Telegram: bot tokens",
    ),
    _key("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", _HEX, 64, 64, "DigitalOcean"),
    _key("vercel-token", "vcp_ vci_ vca_ vcr_ vck_", _WORD, 24, 80, "Vercel"),
    _key("netlify-token", "nfp_ nfc_ nfb_ nfo_ nfu_", _WORD, 36, 40, "Netlify"),
    _key("cloudflare-token", "cfk_ cfut_ cfat_", _B64, 37, 60, "Cloudflare"),
    _key(
        "cloudflare-token",
        "v1.0-",
        _HEX,
        146,
        146,
        "Cloudflare: origin CA keys",
        r"[0-9a-f]{24}-",
    ),
    _key("heroku-key", "HRKU-", _B64, 36, 70, "Heroku"),
    _key("databricks-token", "dapi", _HEX, 32, 32, "Databricks", tail=r"(?:-\d)?"),
    _key("linear-key", "lin_api_ lin_oauth_", _WORD, 40, 64, "Linear"),
    _key("notion-token", "ntn_", _WORD, 40, 50, "Notion"),
    _key("notion-token", "secret_", _WORD, 43, 43, "Notion: tokens of the first form"),
    _key("figma-token", "figd_ figo_ figdr_ figor_ figoh_ figu_", _B64, 38, 60, "Figma"),
    _key("sentry-token", "sntryu_", _HEX, 64, 64, "Sentry: user tokens"),
    _key("sentry-token", "sntrys_", _WORD + "+/=_-", 40, 400, "Sentry: organisation tokens"),
    _key("newrelic-key", "NRAK-", "A-Z0-9", 27, 27, "New Relic: user keys"),
    _key(
        "newrelic-key", "NRII- NRIQ- NRRA- NRJS-", _B64, 19, 48, "New Relic: ingest and other keys"
    ),
    Rule(
        "newrelic-key",
        rf"{_LEFT_STRICT}[0-9a-f]{{36}}NRAL{_END}",
        ("NRAL",),
        check=_real,
        reach=36,
        description="New Relic: licence keys",
    ),
    _key(
        "grafana-token", "glsa_", _WORD, 32, 32, "Grafana: service accounts", tail=r"_[0-9a-f]{8}"
    ),
    _key("grafana-token", "glc_", _WORD + "+/", 32, 600, "Grafana Cloud", tail="={0,2}"),
    _key("vault-token", "hvs. hvb. hvr.", _B64, 24, 300, "HashiCorp Vault"),
    Rule(
        "terraform-token",
        rf"{_LEFT_STRICT}[A-Za-z0-9]{{14}}\.atlasv1\.[{_B64}]{{60,70}}",
        (".atlasv1.",),
        check=_real,
        reach=14,
        description="Terraform Cloud",
    ),
    _key("pulumi-token", "pul-", _HEX, 40, 40, "Pulumi"),
    _key(
        "doppler-token",
        "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
        "." + _B64,
        40,
        80,
        "Doppler",
    ),
    _key(
        "planetscale-token",
        "pscale_tkn_ pscale_pw_ pscale_oauth_",
        "." + _B64,
        32,
        64,
        "PlanetScale",
    ),
    _key("groq-key", "gsk_", _WORD, 48, 60, "Groq"),
    _key("xai-key", "xai-", _WORD, 70, 90, "xAI"),
    _key("replicate-token", "r8_", _WORD, 37, 40, "Replicate"),
    _key("perplexity-key", "pplx-", _WORD, 40, 64, "Perplexity"),
    _key("fireworks-key", "fw_", _WORD, 22, 40, "Fireworks"),
    _key("nvidia-key", "nvapi-", _B64, 60, 80, "NVIDIA"),
    _key("cerebras-key", "csk-", "a-z0-9", 44, 64, "Cerebras"),
    _key("together-key", "tgp_v1_", _B64, 40, 60, "Together"),
    _key("elevenlabs-key", "sk_", _HEX, 48, 48, "ElevenLabs"),
    _key("langsmith-key", "lsv2_pt_ lsv2_sk_", _HEX, 32, 32, "LangSmith", tail=r"_[0-9a-f]{10}"),
    _key("langfuse-key", "sk-lf-", _HEX + "-", 36, 36, "Langfuse"),
    _key("tavily-key", "tvly-", _B64, 28, 64, "Tavily"),
    _key("firecrawl-key", "fc-", _HEX, 32, 32, "Firecrawl"),
    _key("jina-key", "jina_", _B64, 50, 80, "Jina"),
    _key("pinecone-key", "pcsk_", _WORD + "_", 50, 90, "Pinecone"),
    _key("wandb-key", "wandb_v1_", _B64, 40, 120, "Weights & Biases"),
    _key("cursor-key", "key_ crsr_", _HEX, 64, 64, "Cursor"),
    _key("shopify-token", "shpat_ shpca_ shppa_ shpss_", _HEX, 32, 32, "Shopify"),
    _key("square-token", "sq0atp- sq0csp- sq0idp-", _B64, 22, 43, "Square"),
    _key("square-token", "EAAA", _B64, 60, 60, "Square: access tokens"),
    _key("facebook-token", "EAA", _WORD, 100, 300, "Facebook"),
    _key("atlassian-token", "ATATT3 ATCTT3 ATBB", "=" + _B64, 28, 250, "Atlassian"),
    _key("airtable-token", "pat", _WORD, 14, 14, "Airtable", tail=r"\.[0-9a-f]{64}"),
    _key("tailscale-key", "tskey-", _WORD + "-", 20, 80, "Tailscale"),
    _key("flyio-token", "fo1_ fm1_ fm1r_ fm1a_ fm2_", _WORD + "+/_=-", 40, 1000, "Fly.io"),
    _key("render-key", "rnd_", _WORD, 28, 40, "Render"),
    _key("buildkite-token", "bkua_", _HEX, 40, 40, "Buildkite"),
    _key("sourcegraph-token", "sgp_", _HEX + "_", 40, 60, "Sourcegraph"),
    _key("prefect-key", "pnu_ pnb_", _WORD, 36, 36, "Prefect"),
    _key("dropbox-token", "sl.", _B64, 100, 2000, "Dropbox"),
    _key("artifactory-key", "AKCp", _WORD, 60, 80, "Artifactory"),
    _key("onepassword-token", "ops_eyJ", _B64, 100, 2000, "1Password"),
    _key(
        "mapbox-token",
        "sk.eyJ",
        _B64,
        40,
        200,
        "Mapbox: secret tokens",
        tail=r"\.[A-Za-z0-9_-]{20,30}",
    ),
    _key("age-key", "AGE-SECRET-KEY-1", "A-Z0-9", 58, 58, "age"),
    _key("alibaba-key-id", "LTAI", _WORD, 16, 26, "Alibaba Cloud: id of an access key"),
    _key("tencent-key-id", "AKID", _WORD, 32, 32, "Tencent Cloud: id of an access key"),
    _key("datasette-token", "dstok_", "." + _B64, 20, 1000, "Datasette: API tokens"),
    Rule(
        "jwt",
        rf"{_LEFT_STRICT}eyJ[{_B64}]{{10,2000}}(?:\.eyJ[{_B64}]{{8,8000}}(?:\.[{_B64}]{{20,2000}}|\.?(?:…|\Z))"
        rf"|\.{{1,2}}[{_B64}]{{0,2000}}(?:\.[{_B64}]{{10,8000}}){{2,3}}|[{_B64}.]{{0,200}}(?=…))",
        ("eyJ",),
        check=lambda match: _real(match) and _mean_chunk(match.group()) < 3.5,
        description="JSON Web Tokens, signed or encrypted",
    ),
]
_FORMS = [rule if rule.reach is None else replace(rule, in_word=True) for rule in _FORMS]

# --- Secrets known by their context --------------------------------------------------------------

_NAME_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

#: Names that end like that of a secret and are none.
_HARMLESS_NAME = re.compile(
    r"public|(?:^|[_.-]|\b)(?:max|min|num|n|total|websocket|next|prev|previous|page|pagination|continuation|cursor"
    r"|sync|resume|pad|eos|bos|unk|sep|cls|mask|special|start|stop|primary|foreign|cache|sort|partition"
    r"|group|index|row|map|dict|object|hot|short|arrow|registry|unique|composite|idempotency|dedupe"
    r"|i18n|translation|lang|message|msg|label|query|search|json|hash|storage|s3|bucket|file"
    r"|blob|header|config|setting|settings|react|list|item|data|meta|event|metric|tag|host|known"
    r"|color|theme|design|style|css|parent|child|first|last|other|this|the|a|enter|tab|esc|escape)"
    r"[_.-]?(?:token|key|keys|secret|pass|pwd)$"
    r"|(?:next|page|cursor|continuation|sync|cache|primary|foreign|sort|partition|idempotency)[_-]?"
    r"(?:page)?[_-]?(?:token|key)$",
    re.IGNORECASE,
)
#: What may stand before "_key" or "-key" in the name of a secret; in upper case anything else may.
_KEY_NAME = re.compile(
    r"(?:api|access|secret|private|encrypt|encryption|crypt|sign|signing|signature|master|auth|app"
    r"|application|service|account|subscription|licen[cs]e|deploy|session|jwt|hmac|aes|webhook"
    r"|admin|write|ingest|ssh|server|cookie|token|shared|decryption|client|root|rails_master"
    r"|function|functions|openai|anthropic|gemini|google|azure|aws|stripe|mistral|cohere|groq|deepseek"
    r"|tavily|serpapi|openrouter|huggingface|replicate)s?[_.-]?key$",
    re.IGNORECASE,
)
_COMMON = re.compile(
    r"(?:my|new|old|your|the|db|test|super|some|a|default|current|wrong|bad|good|correct|valid|invalid"
    r"|user|admin|root|app|local|dev|prod)*[ _.-]?"
    r"(?:pass(?:word|wd|phrase|code)?|pwd|p[@a]ss?w[o0]rd|secrets?|tokens?|keys?|credentials?|test(?:ing)?"
    r"|admin|root|user(?:name)?|postgres(?:ql)?|mysql|guest|foo|bar|baz|foobar|qwerty|letmein|hello|hunter"
    r"|abc|asdf|string|text|str|bytes|int|bool|boolean|number|object|any|unknown|never|null|none|nil|void"
    r"|undefined|true|false|yes|no|on|off|required|optional|empty|blank|hidden|masked|disabled|enabled"
    r"|default|value|values|input|field|type|auto|manual|basic|bearer|oauth2?|sha\d+|md5|base64|utf-?8"
    r"|hmac|env|file|vault|keyring|keychain|prompt|n/?a|minio(?:admin)?|rabbitmq|redis|change|set|unset)"
    r"[ _.-]?(?:\d{0,6}|abc|hash|here)[!@#$.]{0,2}",
    re.IGNORECASE,
)
_VARIABLE = re.compile(
    r"\$|%\w*%$|%[sdr(]|\{\{|\{[\w.]*\}|@\w+@$|#\{|\(|\[|process\.env|os\.|env\.|environ|getenv"
    r"|settings\.|config\.|self\.|this\.|secrets\.|vars\.|var\.|args\.|options\.|props\.|request\."
    r"|data\.|body\.|!vault|!ref|!sub|!secret|arn:|vault:|op://|projects/|ssm:|file:|env:|ref\+",
    re.IGNORECASE,
)
_PATH = re.compile(
    r"(?:~|\.{1,2})?/(?:[\w.@-]+/)+|[A-Za-z]:[\\/]|https?:|\w+\.(?:py|js|ts|json|txt|ya?ml|env|pem|key|go|rs|md)$"
)
_CODE = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)*[!?]?$")
_REGEX = re.compile(r"\\[dwsbSDW]|\[\^|\[a-z|\[A-Z|\[0-9|\(\?|\.\*|\.\+|\{\d+,")


def _no_secret(value: str) -> bool:
    """What no value of a secret looks like, whatever it is called."""
    value = canonical(value[:400]).strip()
    return (
        made_up(value)
        or bool(_VARIABLE.match(value))
        or all(map(_COMMON.fullmatch, value.split(":")))
        or bool(_PATH.match(value))
        or bool(_REGEX.search(value))
        # words of a language without spaces
        or sum(not c.isascii() for c in value) * 3 > len(value)
        or "${" in value
        or "{{" in value
        or "://" in value
    )


def _plausible_password(value: str) -> bool:
    """Whether a person or a machine may have chosen this as a password: a digit or a sign among
    letters. Words alone are too common in code to be told from labels."""
    if not 6 <= len(value) <= 256 or any(map(str.isspace, value)):
        return False
    letters = sum(map(str.isalpha, value))
    digits = sum(map(str.isdigit, value))
    signs = sum(not c.isalnum() and c not in "-_. /" for c in value)
    if letters >= 2 and digits:
        return len(value) >= 8 or signs > 0
    if letters >= 4 and signs and value[-1:] not in ":?":
        return len(value) >= 8
    return looks_random(value)


def _name_before(text: str, start: int) -> str:
    """The part of a name that stands left of ``start``."""
    left = text[max(0, start - 64) : start]
    name = left[len(left.rstrip(_NAME_CHARACTERS)) :]
    before = left[: len(left) - len(name)]
    if before.endswith("\\") and name[:1] in ("n", "r", "t"):
        name = name[1:]
    elif before.endswith("\\") and name[:1] == "u" and len(name) > 5:
        name = name[5:]
    elif before.endswith("%") and len(name) > 2:
        name = name[2:]
    return name


#: What stands before a name: a command that sets it, a field that tells it, the beginning of a row.
_SETTER = re.compile(r"(?:\bset\s+-\w{0,3}x\w{0,3}|\bsetx|\bsetenv)\s+[\"']?$")
_NAMING = re.compile(
    r"(?<![a-z])(?:name|key|id|variable|var|parameterkey|property)\\{0,8}[\"']?\s{0,3}[:=]\s{0,3}\\{0,8}[\"']?$",
    re.IGNORECASE,
)
_XML_ELEMENT = re.compile(r"(?:<|&lt;|\\u003c)(?:\w{1,16}:)?$")
_XML_END = re.compile(r"<|&lt;|\\{1,8}u003c", re.IGNORECASE)
_TABLE_ROW = re.compile(r"\|[ \t]{1,40}[*`]{0,3}$")
_TABLE_CELL = re.compile(r"[*`]{0,3}[ \t]{0,80}\|")


def _is_assigned(match: re.Match[str]) -> bool:
    """The check of the rule for names: is the name that of a secret, and the value one?"""
    text, start = match.string, match.start("word")
    before = _name_before(text, start)
    word = match.group("word").lower().replace("-", "_")
    name = (before + match.group("word")).lstrip("-.")
    rest = match.group("rest")
    option = before.startswith("-")
    operator = match.group("operator") or ""
    left = text[max(0, start - len(before) - 48) : start - len(before)]
    if match.group("blank") is not None and not (
        (option and before.startswith("--")) or _SETTER.search(left)
    ):
        return False
    value = match.group("value")
    if word == "pw" and before[-1:] not in ("", "_", ".", "-"):
        return False
    # where only the layout tells that a value follows, what stands before has to fit
    if operator == ">":
        if not _XML_END.match(text, match.end()) or not (
            _XML_ELEMENT.search(left) or (match.group("named") and _NAMING.search(left))
        ):
            return False
    elif operator.endswith("|"):
        if not _TABLE_ROW.search(left) or not _TABLE_CELL.match(text, match.end()):
            return False
    elif "value" in operator.lower() and not _NAMING.search(left):
        return False
    in_block = len(operator) > 3 and bool(re.match(r":[ ]?[|>]", operator))
    in_layout = operator[-1:] in (">", "|") or "value" in operator.lower()
    # what the layout delimits is as good as quoted
    quoted = bool(match.group("quote")) or (in_layout and operator != "=>") or in_block
    # SHOUTED, with a value right behind: .env files, shells, docker
    shouted = name.replace(".", "_").isupper() and (
        "_" in name
        or len(name) > 5
        or text[max(0, start - 8) : start].endswith(("export ", "-e ", "env:"))
    )
    assigned = quoted or shouted
    if (
        shouted
        and not quoted
        and match.group("space")
        and ":" not in (match.group("operator") or "")
    ):
        # NAME = value: a constant in code rather than a setting
        assigned = shouted = False
    if word == "pass" and not (
        before[-1:] in "_.-"
        or (before and before[-1:].islower() and match.group("word")[0] == "P")
        or option
    ):
        return False
    if (
        word in ("pass", "pwd")
        and name.lower() in ("oldpwd", "bypass", "compass", "pwd")
        and not quoted
    ):
        return False
    if (
        match.group("named")
        and operator == ":"
        and word in ("password", "passwd", "passphrase", "pwd", "pass")
        and not quoted
        and not rest
        and value.isdigit()
    ):
        return 6 <= len(value) <= 40 and not made_up(value)
    if _HARMLESS_NAME.search(name) or (word == "secret" and text[start - 1 : start] == "["):
        return False
    if "arn:" in text[max(0, start - 80) : start]:
        return False
    if rest and not (_LAST_WORD_SHOUTED if shouted else _LAST_WORD).fullmatch(rest):
        return False
    if not quoted and _is_code(value, shouted):
        return False
    if quoted and not shouted and re.search(r"[A-Za-z_]{3}\(|^[+),]\s", value):
        return False
    if _no_secret(value):
        return False
    is_key = word.endswith("key") and word not in ("secret_key", "secretkey")
    if is_key and not _KEY_NAME.search(name) and not (shouted and assigned):
        return False
    if word in ("token", "auth") or is_key:
        # many of these are ids and words: only what a machine has drawn
        if _UUID.fullmatch(value):
            return is_key or shouted
        if quoted or shouted or option:
            return looks_random(value) or (
                len(value) >= 20 and _plausible_password(value) and looks_random(value, 12)
            )
        return looks_random(value, 20) and _is_drawn(value)
    if word in ("secret", "secret_key", "secretkey", "credential", "credentials"):
        if _UUID.fullmatch(value):
            return True
        if looks_random(value, 12) and (assigned or option or _is_drawn(value)):
            return True
        return (
            assigned
            and len(value) >= 10
            and _plausible_password(value)
            and not _CODE.fullmatch(value)
        )
    if assigned or option:
        if _plausible_password(value):
            return not (quoted and not shouted and _looks_like_words(value))
        if shouted and 8 <= len(value) <= 256 and value.isalpha():
            return True
        return (
            shouted
            and quoted
            and 12 <= len(value) <= 256
            and any(map(str.isdigit, value))
            and value.count(" ") < 8
        )
    if not _plausible_password(value):
        return False
    if not _CODE.fullmatch(value):
        return True
    return looks_random(value, 12) or _alone_on_line(match)


def _is_drawn(value: str) -> bool:
    """Whether a random-looking value without quotes is more than a name in code: a token may begin
    with a letter and have no signs, but then it has several digits, and not only at its end."""
    if not _CODE.fullmatch(value):
        return True
    if len(value) < 16 or not value.isalnum():
        return False
    digits = sum(map(str.isdigit, value.rstrip("0123456789")))
    return digits >= 2 or len(value) < 2.2 * len(_CHUNK.findall(value))


def _is_code(value: str, shouted: bool) -> bool:
    """Whether a value without quotes is an expression: a call, an index, several statements."""
    head = re.split(r"[,;(){}\[\]|&]", value, maxsplit=1)[0]
    if head == value:
        return False
    after = value[len(head)]
    if not head or _COMMON.fullmatch(head):
        return True
    if not _CODE.fullmatch(head):
        return False
    return after in "([{" or not (shouted or looks_random(head))


#: What may follow the telling word in a name: DB_PASSWORD_2, apiKeyProd.
_LAST_WORD = re.compile(
    r"[_-]?(?:base|value|val|prod(?:uction)?|dev(?:elopment)?|staging|live|test|main|primary|secondary"
    r"|current|old|new|raw|plain|b64|base64|key|v?\d{1,3})",
    re.IGNORECASE,
)
_LAST_WORD_SHOUTED = re.compile(
    r"(?!.*(?:FILE|PATH|TYPE|NAME|ID|URL|URI|LENGTH|SIZE|TTL|EXP|COUNT|LIMIT|FIELD|HASH|REGEX|PATTERN"
    r"|HEADER|PREFIX|COLUMN|POLICY|HINT|ALG|FORMAT|ENDPOINT|S)$)[_-]?[A-Za-z0-9]*"
)


def _looks_like_words(value: str) -> bool:
    """``step-2`` or ``Password1:``: words joined by signs, with a number at most at the end."""
    return (
        bool(re.fullmatch(r"[A-Za-z]{3,}(?:[ _.:-][A-Za-z]{2,})*[ _.:-]?\d{0,2}[.:?*]{0,2}", value))
        and not (looks_random(value, 8))
        and not re.fullmatch(r"[A-Za-z]+\d{2,}", value)
    )


def _alone_on_line(match: re.Match[str]) -> bool:
    """``password: hunter42`` as a line of its own, as in YAML; ``password = other1`` is code."""
    text = match.string
    start = match.start() - len(_name_before(text, match.start("word")))
    line = text[max(0, start - 40) : start]
    before = re.split(r"[\r\n→]|\\n", line)[-1]
    after = text[match.end() : match.end() + 2]
    return (
        not before.strip(" \t-0123456789|+")
        and (not after or after[0] in "\r\n" or after == "\\n")
        and not (match.group("space") and ":" not in (match.group("operator") or ""))
    )


#: A value without quotes ends at white space and quotes, and at punctuation that ends a word.
_PLAIN = r"[^\s\"'`\\<>,;&|(){}\[\]…]"
_BARE = (
    rf"{_PLAIN}{{0,1024}}"
    rf"(?:(?:[,;&|(){{}}\[\]](?={_PLAIN})(?!\w{{1,40}}\\{{0,8}}[\"']?[=:])|\\(?![nrtu\"'\\/]))"
    rf"{_PLAIN}{{0,1024}}){{0,16}}"
)
_KEY_WORDS = (
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "pass",
    "secret",
    "token",
    "credential",
    "apikey",
    "api_key",
    "api-key",
    "_key",
    "-key",
    "accesskey",
    "secretkey",
    "privatekey",
    "masterkey",
    "authkey",
    "signingkey",
    "encryptionkey",
    "accountkey",
    "subscriptionkey",
    "_auth",
    "pw",
)
_ASSIGNMENT = (
    r"(?P<word>password|passwd|passphrase|pwd|pass|secret[_-]?key|secret|token|credentials?|api[_-]?key"
    r"|(?:access|private|master|auth|signing|encryption|account|subscription)key|[_-]key|_auth|pw)"
    r"(?P<rest>[_-]?(?:base|value|val|prod(?:uction)?|dev(?:elopment)?|staging|live|test|main|primary"
    r"|secondary|current|old|new|raw|plain|string|str|b64|base64|key|v?\d{1,3}|[A-Z]{1,12})?)"
    # the end of a quoted name: "name", \"name\", ["name"]
    r"(?P<named>(?:\\{0,16}[\"'`]|&quot;|&#34;)?)\]?"
    r"(?P<space>[ \t]{0,8})"
    r"(?:(?P<operator>"
    # the lines of a YAML block
    r":[ ]?[|>][+-]?[ \t]{0,4}(?:\r?\n|\\{1,8}n)[ ]{1,40}"
    # - name: X / value: Y, {"name": "X", "value": "Y"}, <add key="X" value="Y">
    r"|,?(?:\s|\\{1,8}[nrt]){0,40}\\{0,8}[\"']?(?<![a-z])value\\{0,8}[\"']?[ ]?[:=]"
    # <X>Y</X>, and a row of a table
    r"|>|[*]{0,2}[ ]?\|"
    r"|:[ ]?[A-Za-z][\w\[\]|. ]{0,30}?[ ]=(?=[ ])|:=|=>|=(?![=~>])|:(?!:)|%3[dD]|\\{1,8}u003[dD])"
    r"|(?P<blank>(?<=[ \t])))"
    r"[ \t]{0,8}(?:[bruf](?=[\"']))?"
    r"(?P<quote>\\{0,16}(?:\"\"\"|'''|\"(?!\")|'(?!')|`(?!`))|&quot;|&#34;|&#39;|&apos;)?"
    rf"(?P<value>(?(quote)[^\r\n…]{{1,2048}}?(?=(?<!\\)(?P=quote)|…|\Z)|{_BARE}(?<![.,;]))"
    r")"
)


def _is_header(match: re.Match[str]) -> bool:
    value = match.group("value")
    if _no_secret(value) or _is_code(value, shouted=False):
        return False
    return looks_random(value) or (
        len(value) >= 12
        and _plausible_password(value)
        and not _looks_like_words(value)
        and not _CODE.fullmatch(value)
    )


def _is_basic(match: re.Match[str]) -> bool:
    """Whether the credentials of a Basic header are base64 of user:password."""
    value = match.group("value").rstrip("=")
    try:
        text = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return False
    user, separator, password = text.partition(":")
    return bool(separator) and text.isprintable() and not _weak(password or user)


def _weak(password: str) -> bool:
    """Not worth hiding: a variable, an example, or what everybody has on their own machine."""
    return (
        len(password) < 3
        or _no_secret(password)
        or password.startswith(("<", "[", "{", "*", "…", ":"))
        or set(password) <= set("*.x-_")
    )


def _is_url_password(match: re.Match[str]) -> bool:
    value = match.group("value")
    user = match.group("user")
    return not (
        _weak(value)
        or value.lower() == user.lower()
        or made_up(user)
        or any(c in user for c in "{}$[]()^%*+|")
        or any(c in value for c in "{}[]()|^,; ")
    )


_DATABASES = re.compile(
    r"(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|sqlserver|clickhouse|cockroachdb|ftps?|smtps?)"
    r"(?:\+[a-z0-9]{1,12})?$",
    re.IGNORECASE,
)


def _is_cut_url_password(match: re.Match[str]) -> bool:
    """Without the @ behind it, a password could be a port, or the name of an image."""
    value, start = match.group("value"), match.start()
    if value.isdigit() or re.match(r"\d{1,5}(?![A-Za-z0-9])", value) or "=" in value[:-2]:
        return False
    if not _is_url_password(match) or "." in match.group("user"):
        return False
    if _DATABASES.search(match.string[max(0, start - 24) : start]):
        return any(map(str.isdigit, value)) or looks_random(value, 8)
    return looks_random(value, 10) and len(re.findall(r"\d", value)) >= 2


def _is_url_token(match: re.Match[str]) -> bool:
    return looks_random(match.group("value"), 20)


def _is_cookie(match: re.Match[str]) -> bool:
    for pair in match.group("value")[:4096].split(";"):
        name, separator, value = pair.strip().partition("=")
        if separator and name and " " not in name and looks_random(value.strip("\"'"), 16):
            return True
    return False


def _after(*commands: str) -> Callable[[re.Match[str]], bool]:
    """A check for options of commands: one of them stands before, in the same line."""

    def check(match: re.Match[str]) -> bool:
        start = match.start()
        line = re.split(r"[\r\n]|\\n", match.string[max(0, start - 400) : start])[-1]
        return any(command in line for command in commands) and not _weak(match.group("value"))

    return check


def _is_spoken(match: re.Match[str]) -> bool:
    """The check of the rule for prose: only what a machine has drawn, and no hash or id."""
    value = match.group("value").rstrip(".!?:)*`")
    if re.fullmatch(r"[0-9a-f-]+|[0-9A-F-]+|\d+", value) or _no_secret(value):
        return False
    if re.match(
        r"(?:toolu|call|msg|req|resp|rs|fc|run|session|sess|chatcmpl|thread|asst|gAAAA|sha\d+)[_:-]",
        value,
    ):
        return False
    mixed = (
        any(map(str.isdigit, value))
        and any(map(str.isupper, value))
        and any(map(str.islower, value))
    )
    return mixed and looks_random(value, 12) and "/" not in value[:2] and value.count(".") < 2


def _is_told(match: re.Match[str]) -> bool:
    """The check where the context leaves no doubt that this is a password: no variable, no example,
    no mere word."""
    value = match.group("value")
    return not _weak(value) and len(value) >= 4 and not _COMMON.fullmatch(value)


def _is_told_strictly(match: re.Match[str]) -> bool:
    """The check where prose could stand: what a person chooses or a machine draws."""
    value = match.group("value")
    return (
        _is_told(match)
        and _plausible_password(value)
        and not _looks_like_words(value)
        and not _is_code(value, shouted=False)
        and (not _CODE.fullmatch(value) or looks_random(value, 8))
    )


def _is_session(match: re.Match[str]) -> bool:
    return looks_random(match.group("value"), 16)


_Q = r"\\{0,8}[\"']"
_SECRET_NAME = r"[\w.-]{0,60}(?:password|passwd|pass|pwd|secret|token|key|credential)[\w.-]{0,12}"

_LAYOUTS = [
    Rule(
        "password",
        rf"password\s{{1,4}}{_Q}(?P<value>[^'\"\s\\]{{4,200}}){_Q}",
        ("password",),
        check=_is_told_strictly,
        description="SQL: create user ... password '...'",
    ),
    Rule(
        "password",
        rf"identified\s{{1,4}}(?:with\s{{1,4}}[\w'\"]{{1,40}}\s{{1,4}})?by\s{{1,4}}(?:password\s{{1,4}})?"
        rf"{_Q}(?P<value>[^'\"\r\n\\]{{4,200}}){_Q}",
        ("identified ",),
        check=_is_told,
        description="SQL: identified by '...'",
    ),
    Rule(
        "password",
        rf"auth(?:\s?=\s?)?\(\s{{0,40}}{_Q}[^\"'\\\s]{{1,64}}{_Q},\s{{0,40}}"
        rf"{_Q}(?P<value>[^\"'\r\n\\]{{4,200}}){_Q}\s{{0,40}},?\s{{0,40}}\)",
        ("auth",),
        check=_is_told,
        description='Python: auth=("user", "...")',
    ),
    Rule(
        "password",
        rf"(?:echo|printf)\s(?:-\w{{1,3}}\s)?(?:{_Q}%s(?:\\{{1,8}}n)?{_Q}\s)?(?:{_Q})?(?P<value>[^\s'\"\\|]{{4,200}})"
        rf"(?:{_Q})?\s{{0,4}}\|\s{{0,4}}(?:sudo\s(?:-\w{{1,4}}\s){{0,3}}(?:-\w?S|--stdin)"
        r"|[^\r\n|]{1,100}(?:--password-stdin|--with-token|secret set |--stdin|secrets? (?:create|versions add)))",
        ("echo ", "printf "),
        check=_is_told,
        description="echo ... | sudo -S, docker login --password-stdin, gh secret set",
    ),
    Rule(
        "password",
        rf"(?:echo|printf)\s(?:-\w{{1,3}}\s)?(?:{_Q})?[\w.-]{{1,32}}:(?P<value>[^\s'\"\\|]{{4,200}})"
        rf"(?:\\{{1,8}}n)?(?:{_Q})?\s{{0,4}}\|\s{{0,4}}(?:sudo\s{{1,2}})?(?:/usr/sbin/)?chpasswd",
        ("echo ", "printf "),
        check=_is_told,
        description="echo user:... | chpasswd",
    ),
    Rule(
        "named-secret",
        rf"secret set\s{{1,4}}[\w-]{{1,80}}(?:\s{{1,4}}-[\w-]{{1,20}}[ =][\w./-]{{1,80}}){{0,4}}\s{{1,4}}(?:--body|-b)[ =]{{1,4}}"
        rf"(?:{_Q})?(?P<value>[^\s'\"\\]{{4,1000}})",
        ("secret",),
        check=_is_told,
        description="gh secret set NAME --body ...",
    ),
    Rule(
        "aws-secret-access-key",
        r"secret access key(?:\s\[[^\]\r\n]{0,60}\])?:\s{0,4}(?P<value>[A-Za-z0-9/+=]{40})(?![A-Za-z0-9/+=])",
        ("secret",),
        check=_is_told,
        description="What aws configure asks for",
    ),
    Rule(
        "named-secret",
        rf"variable\s{_Q}{_SECRET_NAME}{_Q}\s?\{{[^{{}}]{{0,400}}?default\s{{0,12}}=\s{{0,4}}{_Q}"
        rf"(?P<value>[^\"\s\\]{{4,400}}){_Q}",
        ("variable ",),
        check=_is_told_strictly,
        description="Terraform: the default of a variable for a secret",
    ),
    Rule(
        "password",
        r":(?:\d{4,5}|\*):[\w*.-]{1,64}:[\w*.-]{1,64}:(?P<value>[^\s:\"'\\]{4,200})(?=\s|\Z|\\|[\"'])",
        (":5432:", ":6432:"),
        check=_is_told_strictly,
        description=".pgpass",
    ),
    Rule(
        "cookie",
        rf"curl\s(?:[^\r\n]{{0,200}}?\s)?(?:-b|--cookie)[ =]?(?:{_Q})?(?P<value>[^\r\n\"'\\]{{8,2048}})",
        ("curl ",),
        check=_is_cookie,
        description="curl -b",
    ),
    Rule(
        "cookie",
        r"(?<=(?i:tru|als))e(?:\t|\\{1,8}t)\d{1,12}(?:\t|\\{1,8}t)[^\s\\]{1,64}(?:\t|\\{1,8}t)(?P<value>[^\s\\\"]{8,2048})",
        ("e\t", "e\\t", "e\\\\t"),
        check=_is_session,
        description="cookies.txt",
    ),
    Rule(
        "password",
        rf"convertto-securestring\s{{1,4}}(?:-string\s{{1,4}})?{_Q}(?P<value>[^\"'\r\n\\]{{4,200}}){_Q}",
        ("convertto-securestring",),
        check=_is_told,
        description="PowerShell: ConvertTo-SecureString",
    ),
    Rule(
        "authorization",
        rf"auth{_Q}\s?:\s?{_Q}(?P<value>[A-Za-z0-9+/]{{8,1024}}={{0,2}}){_Q}",
        ("auth",),
        check=_is_basic,
        description="Docker: credentials in config.json",
    ),
    Rule(
        "password",
        r"(?:use|using|with|try|set)\s[\"'`]?(?P<value>[^\s\"'`]{6,128})[\"'`]?\s(?:as|for)\s(?:the\s|my\s|your\s|our\s|a\s)?"
        r"(?:\w{1,20}\s)?(?:password|passphrase|passwd)(?!\w)",
        ("as the password", "as password", "as my password"),
        reach=140,
        check=_is_told_strictly,
        description="use ... as the password",
    ),
]
_LAYOUTS = [replace(rule, group="value", ignore_case=True, by_context=True) for rule in _LAYOUTS]


_NL = r"(?:\\{1,8}[rn]|[\r\n])"
_PEM_LINE = (
    # the line break, and what tools put before a line: its number, a quote mark, the sign of a diff
    rf"{_NL}{{1,4}}[ \t]{{0,40}}(?:\d{{1,7}}[ \t]{{0,2}}[→|:\t])?(?:[ \t>|+*#]|-(?!-)){{0,8}}(?!-)[\"']?"
)
_PEM = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:{_PEM_LINE}[A-Z][A-Za-z-]{{2,20}}: [^\r\n\\]{{0,200}}){{0,6}}"
    rf"(?:{_PEM_LINE}|[ \t]{{0,4}})(?P<first>[A-Za-z0-9+/=]{{16,5000}})"
    rf"(?:(?:{_PEM_LINE}|[\"']?\s?\+?\s?[\"'])"
    r"[A-Za-z0-9+/=]{1,5000}(?![A-Za-z0-9+/=])(?=[ \t]{0,40}(?:[\r\n\\\"'…]|-|\Z))){0,1000}"
    rf"(?:(?:{_NL}[ \t0-9→|:>]{{0,40}}|\s|[\"']?\s?\+?\s?[\"']){{0,3}}-----END [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----)?"
)

_PEM_MARK = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
#: A line of a key, and its last line.
_PEM_RUN = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")
_PEM_REST = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
#: What may stand between two lines of a key: the ends and beginnings of lines that tools print -
#: numbers, names of files, signs of a diff, quotes, frames, indentation, markup.
_PEM_GAP = 200
_PEM_LONGEST = 40_000


def _pem_layouts(text: str) -> Iterator[tuple[int, int]]:
    """Private keys in any layout: lines of base64 that follow each other closely, from BEGIN to END;
    also without END, where a text was cut off, or without BEGIN, where it was read from an offset."""
    marks = [(m.start(), m.end(), m.group(1) == "BEGIN") for m in _PEM_MARK.finditer(text)]
    for number, (start, end, begins) in enumerate(marks):
        before = marks[number - 1] if number else None
        after = marks[number + 1] if number + 1 < len(marks) else None
        if begins:
            limit = min(after[0] if after else len(text), end + _PEM_LONGEST)
            closed = after is not None and not after[2] and limit == after[0]
            runs = _pem_runs(text, end, limit)
            chain, gap = end, 0
            for left, right in runs:
                if left - chain > _PEM_GAP:
                    break
                chain, gap = right, left - chain
            if chain == end:
                continue
            if closed and after is not None and limit - chain <= _PEM_GAP + 80:
                yield start, after[1]
                continue
            # what is left of the last line where the text was cut off, behind what is before each
            for rest in _PEM_REST.finditer(text, chain, min(limit, chain + gap + 80)):
                if abs(rest.start() - chain - gap) <= 3 and rest.end() == len(text):
                    chain = limit
            yield start, chain
        elif before is None or not before[2]:
            limit = max(before[1] if before else 0, start - _PEM_LONGEST)
            runs = _pem_runs(text, limit, start)
            first, gap = start, _PEM_GAP + 80  # the last line is shorter than a run
            for left, right in reversed(runs):
                if first - right > gap:
                    break
                first, gap = left, _PEM_GAP
            if first < start:
                yield first, end


def _pem_runs(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where lines of a key begin and end, without the escape of the line break before them."""
    runs = []
    for match in _PEM_RUN.finditer(text, start, end):
        left, line = match.start(), match.group()
        if text[left - 1 : left] == "\\":
            left += 5 if re.match(r"u[0-9a-f]{4}", line) else 1
        elif text[left - 1 : left] == "%":
            left += 2
        if _is_pem_line(line):
            runs.append((left, match.end()))
    return runs


def _is_pem_line(line: str) -> bool:
    """Whether a line may be that of a key: many characters. Runs of A are zeros, and usual."""
    return len(set(line)) >= min(12, len(line) // 2) and not _MADE_UP.search(line[:400])


_CONTEXTS = [
    Rule(
        "private-key",
        _PEM_MARK.pattern,
        ("PRIVATE KEY",),
        spans=_pem_layouts,
        description="Private keys in the layouts that tools print, also without their beginning",
    ),
    Rule(
        "private-key",
        _PEM,
        ("-----BEGIN ",),
        check=lambda match: _is_pem_line(match.group("first")),
        description="Private keys (PEM, OpenSSH, PGP), with real or escaped line breaks, also cut off",
    ),
    Rule(
        "private-key",
        r"PuTTY-User-Key-File-\d:[\s\S]{0,600}?Private-Lines: \d{1,4}(?P<value>(?:\r?\n[A-Za-z0-9+/=]{1,80}){1,200})",
        ("PuTTY-User-Key-File-",),
        group="value",
        description="Private keys of PuTTY",
    ),
    Rule(
        "url-password",
        r"://(?P<user>[^\s:/@\"'<>\\?#`]{0,64}):(?P<value>[^\s/\"'<>\\`]{3,200})@(?=[A-Za-z0-9.\[_-])",
        ("://",),
        group="value",
        check=_is_url_password,
        description="Passwords in URLs: connection strings, basic authentication",
        by_context=True,
    ),
    Rule(
        "url-password",
        r"://(?P<user>[^\s:/@\"'<>\\?#`…]{1,64}):(?P<value>[^\s/\"'<>\\`@…]{4,200}?)(?=…|\.\.\.|[\s\"'\\<`]|\Z)",
        ("://",),
        group="value",
        check=_is_cut_url_password,
        description="Passwords in URLs that were cut off",
        by_context=True,
    ),
    Rule(
        "url-password",
        r"://(?P<value>[A-Za-z0-9_-]{20,255})@(?=[A-Za-z0-9.-])",
        ("://",),
        group="value",
        check=_is_url_token,
        description="Tokens in URLs",
        by_context=True,
    ),
    Rule(
        "authorization",
        r"basic(?:[ ]|%20|\\u0020){1,4}(?P<value>[A-Za-z0-9+/]{8,1024}={0,2})",
        ("basic ", "basic%20", "basic\\u0020"),
        group="value",
        check=_is_basic,
        description="Basic credentials in headers",
        ignore_case=True,
        by_context=True,
    ),
    Rule(
        "authorization",
        rf"(?:bearer|token)(?:[ ]|%20|\\u0020){{1,4}}(?P<value>{_BARE}(?<![.,;:]))",
        ("bearer ", "bearer%20", "bearer\\u0020", "token "),
        group="value",
        check=lambda match: (
            _is_header(match)
            and (
                match.group()[0] in "bB"
                or "uthorization" in match.string[max(0, match.start() - 30) : match.start()]
            )
        ),
        description="Bearer and other tokens in headers",
        ignore_case=True,
        by_context=True,
    ),
    Rule(
        "authorization",
        r"authorization\\{0,16}[\"']?\s{0,2}[:=]\s{0,2}\\{0,16}[\"']?(?:[A-Za-z0-9-]{3,20} )?"
        rf"(?P<value>{_BARE}(?<![.,;:]))",
        ("authorization",),
        group="value",
        check=_is_header,
        description="Other values of the Authorization header",
        ignore_case=True,
        by_context=True,
    ),
    Rule(
        "cookie",
        r"(?:set-)?cookie\\{0,16}[\"']?\s{0,2}[:=]\s{0,2}\\{0,16}[\"']?(?P<value>[^\r\n\"'\\]{8,2048})",
        ("cookie",),
        group="value",
        check=_is_cookie,
        description="Cookies in headers",
        ignore_case=True,
        by_context=True,
    ),
    Rule(
        "password",
        r"(?<![\w-])-u(?:\\{0,8}[\"'],)?[ =]?\\{0,8}[\"']?[^\s:'\"\\]{1,64}:(?P<value>[^\s'\"\\]{3,200})",
        ("-u",),
        group="value",
        check=_after("curl", "wget", "http"),
        description="curl -u user:password",
        by_context=True,
    ),
    Rule(
        "password",
        r"--user[ =]\\{0,8}[\"']?[^\s:'\"\\]{1,64}:(?P<value>[^\s'\"\\]{3,200})",
        ("--user",),
        group="value",
        check=_after("curl", "wget", "http"),
        description="curl --user user:password",
        by_context=True,
    ),
    Rule(
        "password",
        r"(?<=\s)-p\\{0,8}[\"']?(?P<value>[^\s'\"\\]{4,200})",
        ("-p",),
        group="value",
        check=_after("mysql", "mariadb"),
        description="mysql -ppassword",
        by_context=True,
    ),
    Rule(
        "password",
        r"(?<=\s)-[pa][ ]\\{0,8}[\"']?(?P<value>[^\s'\"\\]{4,200})",
        ("-p ", "-a "),
        group="value",
        check=_after("sshpass", "docker login", "redis-cli", "podman login", "helm registry login"),
        description="-p or -a of sshpass, docker login, redis-cli",
        by_context=True,
    ),
    Rule(
        "password",
        r"login(?:\s|\\n){1,8}[^\s\\]{1,100}(?:\s|\\n){1,8}password(?:\s|\\n){1,8}(?P<value>[^\s\\\"]{3,200})",
        ("login",),
        group="value",
        check=lambda match: not _weak(match.group("value")),
        description=".netrc",
        by_context=True,
    ),
    Rule(
        "named-secret",
        _ASSIGNMENT,
        _KEY_WORDS,
        group="value",
        check=_is_assigned,
        description="What a name such as DB_PASSWORD, api_key or clientSecret is set to",
        ignore_case=True,
        by_context=True,
    ),
    Rule(
        "named-secret",
        r"(?<![A-Za-z0-9_-])(?:password|passphrase|passcode|api[ _-]?key|key|token|secret|credentials?)\b[*`\"']{0,3}"
        r"(?:,? (?:is|was|will be|to|be|now|that|you|i|we|pasted|gave|sent|shared|used|use|uses|here|below|above"
        r"|in|the|chat|for|it|it's|this|one|set|new|old)\b|[:=,]){1,8}\s{1,3}[*`\"'(]{0,4}"
        r"(?P<value>[^\s,;\"'`<>\\()]{12,128}(?<![.:!?*]))",
        ("password", "passphrase", "passcode", "key", "token", "secret", "credential"),
        group="value",
        check=_is_spoken,
        description='What prose calls a key or a password ("the key you pasted, ..., is")',
        ignore_case=True,
        by_context=True,
    ),
]

#: All built-in rules. Of two that find the same text, the first names its kind.
RULES: tuple[Rule, ...] = (*_FORMS, *_CONTEXTS, *_LAYOUTS)


# --- The finder ----------------------------------------------------------------------------------


class _Plan:
    """The rules, sorted by their literals: what to look for, and what to try there."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.words: dict[str, list[tuple[int, Rule]]] = {}
        self.exact: dict[str, list[tuple[int, Rule]]] = {}
        self.folded: dict[str, list[tuple[int, Rule]]] = {}
        self.anywhere: list[tuple[int, Rule]] = []
        #: what keys begin with
        self.openings = tuple(
            literal
            for rule in rules
            if rule.in_word and not rule.reach
            for literal in rule.literals
        )
        for rank, rule in enumerate(rules):
            if not rule.literals or rule.reach is None or rule.spans is not None:
                self.anywhere.append((rank, rule))
                continue
            where = self.folded if rule.ignore_case else self.words if rule.in_word else self.exact
            for literal in dict.fromkeys(rule.literals):
                where.setdefault(literal, []).append((rank, rule))


_plans: dict[int, tuple[Sequence[Rule], _Plan]] = {}


def _plan(rules: Sequence[Rule]) -> _Plan:
    known = _plans.get(id(rules))
    if known is not None and known[0] is rules and isinstance(rules, tuple):
        return known[1]
    plan = _Plan(rules)
    if isinstance(rules, tuple):
        if len(_plans) > 16:
            _plans.clear()
        _plans[id(rules)] = (rules, plan)
    return plan


_UPPER = re.compile("[A-Z]+")


def _folded(text: str) -> str:
    """``text`` in lower case, with every character at its old place."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return _UPPER.sub(lambda match: match.group().lower(), text)


def _long_words(text: str) -> str:
    """The words of ``text`` that may hold a key, one a line."""
    if "…" in text:
        return text
    words = text.split()
    return "\n".join(
        [word for word in words if len(word) >= 20]
        + [word for word in words[-1:] if len(word) >= 12]
    )


#: A literal over and over ("password=password=...") makes matches that lie in each other, and are
#: refused one by one. So many characters of those may be looked at; then each only once.
_REFUSED_AT_LEAST = 200_000
_REFUSED_EACH = 2


def _candidates(text: str, plan: _Plan) -> Iterator[tuple[int, int, int, str]]:
    """(start, end, rank, kind) of every match, in no order."""
    folded = _folded(text) if plan.folded or plan.anywhere else ""
    for table in (plan.words, plan.exact, plan.folded):
        haystack = folded if table is plan.folded else text
        # most texts have few words as long as a key: most literals are sought in those only
        words = _long_words(text) if table is plan.words else text
        if not words:
            continue
        for literal, rules in table.items():
            if words is not text and literal not in words:
                continue
            place = haystack.find(literal)
            if place < 0:
                continue
            done = [0] * len(rules)
            refused = [0] * len(rules)
            while place >= 0:
                for index, (rank, rule) in enumerate(rules):
                    if place < done[index]:
                        continue
                    begin = max(0, place - (rule.reach or 0))
                    match = rule.regex.match(text, begin)
                    if match is None:
                        continue
                    if rule.check is not None and not rule.check(match):
                        refused[index] += match.end() - begin
                        if refused[index] > _REFUSED_AT_LEAST + _REFUSED_EACH * place:
                            done[index] = match.end()
                        continue
                    start, end = match.span(rule.group)
                    if start < end:
                        # what was matched needs no second look: this keeps the time linear
                        done[index] = max(end, place + 1)
                        yield start, end, rank, rule.kind
                place = haystack.find(literal, place + 1)
    for rank, rule in plan.anywhere:
        if rule.literals:
            haystack = folded if rule.ignore_case else text
            if not any(literal in haystack for literal in rule.literals):
                continue
        if rule.spans is not None:
            for start, end in rule.spans(text):
                yield start, end, rank, rule.kind
            continue
        for match in rule.regex.finditer(text):
            if rule.check is None or rule.check(match):
                start, end = match.span(rule.group)
                if 0 <= start < end:
                    yield start, end, rank, rule.kind


#: Codes for colours and the like, as they are, in JSON, and in the notation of code; and links.
_ESCAPES = re.compile(
    r"(?:\x1b|\\{1,8}(?:u001[bB]|x1[bB]|033|e(?=\[\d)))"
    r"(?:\[[0-9;:?]{0,40}[A-Za-z]|\][^\x07\x1b\\]{0,1000}(?:\x07|\x1b\\|\\{1,8}u0007))"
)
_ESCAPE_SIGNS = ("\x1b", "1b[", "33[")


def _without_escapes(text: str, rules: Sequence[Rule]) -> list[tuple[int, int, int, str]] | None:
    """The candidates in ``text`` without the codes of terminals, at their places in ``text``; ``None``
    where there are no such codes."""
    parts: list[str] = []
    #: where each part begins in the shortened text, and how much is missing before it
    begins: list[int] = []
    missing: list[int] = []
    place = length = 0
    for match in _ESCAPES.finditer(text):
        if match.start() > place:
            parts.append(text[place : match.start()])
            begins.append(length)
            missing.append(place - length)
            length += match.start() - place
        place = match.end()
    if not place:
        return None
    parts.append(text[place:])
    begins.append(length)
    missing.append(place - length)

    def original(position: int) -> int:
        return position + missing[bisect.bisect_right(begins, position) - 1]

    plain, plan = "".join(parts), _plan(rules)
    candidates = list(_candidates(plain, plan))
    # a key right behind a code that stood right behind a letter is not inside a word
    edges = [
        begin
        for begin in begins[1:]
        if plain[begin - 1 : begin].isalnum() and plain.startswith(plan.openings, begin)
    ]
    for begin in edges[:200]:
        for start, end, rank, kind in _candidates(plain[begin : begin + 400], plan):
            candidates.append((begin + start, begin + end, rank, kind))
    # the last character of a secret is in the text, what stands behind it may be a code
    return [
        (original(start), original(end - 1) + 1, rank, kind)
        for start, end, rank, kind in candidates
    ]


#: What publishing puts in place of a secret.
_REPLACED = re.compile(r"\[secret:[a-z0-9-]+:[0-9]{12}\]")


def find(text: str, rules: Sequence[Rule] = RULES) -> list[Finding]:
    """The secrets in ``text``, in order and without overlaps. Of two rules that find overlapping
    parts, the longer part names the kind, then the earlier rule; the finding covers both parts. What
    publishing put in place of a secret is none."""
    found: list[list[Any]] = []
    shown = _without_escapes(text, rules) if any(s in text for s in _ESCAPE_SIGNS) else None
    candidates = sorted(_candidates(text, _plan(rules)) if shown is None else shown)
    if candidates and "[secret:" in text:
        replaced = [match.span() for match in _REPLACED.finditer(text)]
        candidates = [
            candidate
            for candidate in candidates
            if not any(start < candidate[1] and candidate[0] < end for start, end in replaced)
        ]
    for start, end, rank, kind in candidates:
        if found and start < found[-1][1]:
            last = found[-1]
            if (start - end, rank) < (last[4] - last[5], last[2]):
                last[2:] = [rank, kind, start, end]
            last[1] = max(last[1], end)
        else:
            found.append([start, end, rank, kind, start, end])
    return [Finding(kind, start, end, text[start:end]) for start, end, _, kind, _, _ in found]


def canonical(value: str) -> str:
    """A secret as it is, whatever stood around it: without the escapes of JSON, and the colours of a
    terminal. The same private key from a file and from a JSON record gives the same text."""
    if "\x1b" in value or "\\" in value:
        value = _ESCAPES.sub("", value)
    if "\\" not in value:
        return value
    while "\\\\" in value:
        value = value.replace("\\\\", "\\")
    for escape, character in (
        ("\\r\\n", "\n"),
        ("\\n", "\n"),
        ("\\r", "\n"),
        ('\\"', '"'),
        ("\\/", "/"),
    ):
        value = value.replace(escape, character)
    return value


# --- Rules of the user's own ---------------------------------------------------------------------

_FIELDS = {"kind", "pattern", "literals", "group", "ignore_case", "description"}
#: A pattern may take this long, in seconds, for any 8,000 characters. A linear one takes less than a
#: thousandth; one whose time grows with the square of the length takes a tenth and more.
_SLOW = 0.05

_PROBE = """
import json, re, sys, time
for number, (pattern, flags, texts) in enumerate(json.load(sys.stdin)):
    print(number, flush=True)
    regex = re.compile(pattern, flags)
    for text in texts:
        best = 9.0
        for attempt in range(3):
            start = time.process_time()
            for match in regex.finditer(text):
                pass
            best = min(best, time.process_time() - start)
            if best < SLOW:
                break
        else:
            sys.exit(3)
"""


def load_rules(path: str | Path) -> list[Rule]:
    """The rules in a YAML or JSON file: a list of mappings, alone or below ``rules``, each with
    ``kind`` and ``pattern`` and, if wanted, ``literals``, ``group``, ``ignore_case`` and
    ``description``. Raises :class:`RuleError`, also for a pattern that takes too long on some text.
    """
    import yaml  # type: ignore[import-untyped,unused-ignore]

    try:
        loaded = yaml.safe_load(Path(path).read_text("utf-8"))
    except OSError as error:
        raise RuleError(f"{path} can't be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise RuleError(f"{path} is not UTF-8 text") from None
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not understood"
        raise RuleError(f"{path} is not YAML or JSON{where}: {problem}") from None
    if isinstance(loaded, dict) and set(loaded) == {"rules"}:
        loaded = loaded["rules"]
    if not isinstance(loaded, list) or not loaded:
        raise RuleError(f"{path} should hold a list of rules, each with kind and pattern")
    rules = [_load_rule(f"{path}, rule {number}", item) for number, item in enumerate(loaded, 1)]
    slow = _slow_rule(rules)
    if slow is not None:
        raise RuleError(
            f"{path}, rule {slow + 1} ({rules[slow].kind}): the pattern takes too long on some texts; "
            "bound its repetitions ({1,100} instead of + and *) and don't nest them"
        )
    return rules


def _load_rule(where: str, item: Any) -> Rule:
    if not isinstance(item, dict):
        raise RuleError(f"{where} should be a mapping with kind and pattern")
    unknown = sorted(str(key) for key in set(item) - _FIELDS)
    if unknown:
        raise RuleError(
            f"{where}: unknown field {unknown[0]!r}; there are {', '.join(sorted(_FIELDS))}"
        )
    for name in ("kind", "pattern"):
        if not isinstance(item.get(name), str) or not item[name]:
            raise RuleError(f"{where}: {name} is missing, or not text")
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,59}", item["kind"]):
        raise RuleError(f"{where}: kind {item['kind']!r} should be of a-z, 0-9 and - only")
    literals = item.get("literals", ())
    literals = (literals,) if isinstance(literals, str) else literals
    if not isinstance(literals, list | tuple) or not all(
        isinstance(x, str) and x for x in literals
    ):
        raise RuleError(f"{where}: literals should be a list of texts")
    ignore_case = item.get("ignore_case", False)
    if not isinstance(ignore_case, bool):
        raise RuleError(f"{where}: ignore_case should be true or false")
    group = item.get("group", 0)
    if isinstance(group, bool) or not isinstance(group, int | str):
        raise RuleError(f"{where}: group should be a number or a name")
    try:
        rule = Rule(
            item["kind"],
            item["pattern"],
            tuple(x.lower() for x in literals) if ignore_case else tuple(literals),
            group,
            check=_not_replaced,
            description=str(item.get("description", "")),
            ignore_case=ignore_case,
            reach=None,
        )
    except (re.error, OverflowError, RecursionError) as error:
        raise RuleError(f"{where}: the pattern is not a regular expression: {error}") from None
    if group != 0 and group not in (
        *range(1, rule.regex.groups + 1),
        *rule.regex.groupindex,
    ):
        raise RuleError(f"{where}: the pattern has no group {group!r}")
    if rule.regex.fullmatch("") or rule.regex.match(""):
        raise RuleError(f"{where}: the pattern also matches nothing at all")
    return rule


def _not_replaced(match: re.Match[str]) -> bool:
    """Whether a match is not what a publication has put in place of a secret."""
    return "[secret:" not in match.group()


def _slow_rule(rules: Sequence[Rule], longest: float = 4.0) -> int | None:
    """The number of a rule whose pattern is slow on one of a few texts that tell; ``None`` where all
    are quick. They run in a process of their own, which can be stopped."""
    size = 8000
    jobs = []
    for rule in rules:
        words = [*rule.literals, *re.findall(r"[A-Za-z0-9_.:/@-]{1,40}", rule.pattern)][:12]
        units = {"a", "0", " ", "a ", "aA0", "-", "/", "=", "\\", '"', "\n", ":", "é"}
        units |= {*words, "".join(words), *(word + "a" for word in words)}
        texts = [(unit * (size // len(unit) + 1))[:size] + "!" for unit in sorted(units)]
        texts += [
            word + (unit * size)[:size] + "!" for word in words for unit in ("a", "0", " ", "aA0")
        ]
        jobs.append((rule.regex.pattern, rule.regex.flags, texts))
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _PROBE.replace("SLOW", str(_SLOW))],
            input=json.dumps(jobs),
            capture_output=True,
            text=True,
            timeout=longest + len(rules) / 4,
        )
    except subprocess.TimeoutExpired as stopped:
        output = stopped.stdout or b""
        text = output.decode() if isinstance(output, bytes) else output
        return int(text.split()[-1]) if text.split() else 0
    return int(done.stdout.split()[-1]) if done.returncode == 3 else None
