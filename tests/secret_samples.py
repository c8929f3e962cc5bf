"""A labelled set: made-up secrets in the places where transcripts hold them, and texts that look
like secrets and are none. Drawn anew from a seed, so that no value is one that the rules were
written with."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

LETTERS = string.ascii_letters
WORD = LETTERS + string.digits
URLSAFE = WORD + "-_"
HEX = "0123456789abcdef"
BASE32 = string.ascii_uppercase + "234567"


@dataclass(frozen=True)
class Sample:
    kind: str
    context: str
    text: str
    #: The secret as it stands in the text, escapes included; empty where there is none.
    secret: str = ""


class Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def draw(self, characters: str, length: int) -> str:
        return "".join(self.random.choice(characters) for _ in range(length))

    def base64(self, size: int) -> str:
        return base64.b64encode(self.random.randbytes(size)).decode()

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def jwt(self) -> str:
        def part(value: object) -> str:
            return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

        claims = {"sub": self.uuid(), "name": self.draw(LETTERS, 9), "exp": 1_900_000_000}
        return f"{part({'typ': 'JWT', 'alg': 'RS256'})}.{part(claims)}.{self.draw(URLSAFE, 86)}"

    def pem(self, name: str) -> str:
        lines = "\n".join(self.draw(WORD + "+/", 64) for _ in range(self.random.randint(3, 9)))
        end = self.draw(WORD, 21) + "="
        return f"-----BEGIN {name}-----\n{lines}\n{end}\n-----END {name}-----"

    def password(self) -> str:
        """What password managers make: 14 to 20 characters with a digit and a sign."""
        value = self.draw(WORD + "!#%*+-_=?", self.random.randint(14, 20) - 3)
        return self.draw(LETTERS, 1) + value + self.draw("!#*+=", 1) + self.draw(string.digits, 1)

    def phrase(self) -> str:
        """What people make: two words with digits and a sign, such as Velvet-Otter93!"""
        words = ["velvet", "otter", "marble", "comet", "tundra", "pickle", "raven", "juniper"]
        first, second = self.random.sample(words, 2)
        digits = str(self.random.randint(10, 99))
        return f"{first.title()}{self.random.choice('!#+=')}{second}{digits}"


#: kind of sample: (name of a variable, how to draw a value). These tell themselves by their form.
Draw = Callable[[Maker], str]
FORMS: dict[str, tuple[str, Draw]] = {
    "anthropic": ("ANTHROPIC_API_KEY", lambda m: "sk-ant-" + "api03-" + m.draw(URLSAFE, 93) + "AA"),
    "anthropic-oauth": ("CLAUDE_CODE_OAUTH_TOKEN", lambda m: "sk-ant-oat01-" + m.draw(URLSAFE, 95)),
    "openai-legacy": (
        "OPENAI_API_KEY",
        lambda m: "sk-" + m.draw(WORD, 20) + "T3Blbk" + "FJ" + m.draw(WORD, 20),
    ),
    "openai-project": ("OPENAI_API_KEY", lambda m: "sk-proj-" + m.draw(URLSAFE, 156)),
    "openai-service": ("OPENAI_API_KEY", lambda m: "sk-svcacct-" + m.draw(URLSAFE, 120)),
    "openrouter": ("OPENROUTER_API_KEY", lambda m: "sk-or-v1-" + m.draw(HEX, 64)),
    "deepseek": ("DEEPSEEK_API_KEY", lambda m: "sk-" + m.draw(HEX, 32)),
    "github": ("GITHUB_TOKEN", lambda m: m.random.choice("pousr").join(["gh", "_"]) + m.draw(WORD, 36)),
    "github-fine": ("GH_TOKEN", lambda m: "github_pat_" + m.draw(WORD, 22) + "_" + m.draw(WORD, 59)),
    "gitlab": (
        "GITLAB_TOKEN",
        lambda m: m.random.choice(["glpat-", "gldt-", "glptt-", "glrt-"]) + m.draw(URLSAFE, 20),
    ),
    "aws-id": ("AWS_ACCESS_KEY_ID", lambda m: "AKIA" + m.draw(BASE32, 16)),
    "google-api": ("GEMINI_API_KEY", lambda m: "AIza" + m.draw(URLSAFE, 35)),
    "google-secret": ("GOOGLE_CLIENT_SECRET", lambda m: "GOCSPX-" + m.draw(URLSAFE, 28)),
    "azure-client": (
        "AZURE_CLIENT_SECRET",
        lambda m: m.draw(WORD, 3) + m.draw("78", 1) + "Q~" + m.draw(WORD + "~.-_", 33) + m.draw(WORD, 1),
    ),
    "slack-bot": (
        "SLACK_BOT_TOKEN",
        lambda m: f"xoxb-{m.draw('3456789', 12)}-{m.draw('3456789', 13)}-{m.draw(WORD, 24)}",
    ),
    "discord-bot": (
        "DISCORD_TOKEN",
        lambda m: base64.b64encode(m.draw("123456789", 18).encode()).decode()
        + "." + "G" + m.draw(URLSAFE, 5) + "." + m.draw(WORD, 38),
    ),
    "stripe": ("STRIPE_SECRET_KEY", lambda m: "sk_" + "live_51" + m.draw(WORD, 97)),
    "stripe-webhook": ("STRIPE_WEBHOOK_SECRET", lambda m: "whsec_" + m.draw(WORD, 32)),
    "twilio": ("TWILIO_API_KEY", lambda m: "SK" + m.draw(HEX, 32)),
    "sendgrid": ("SENDGRID_API_KEY", lambda m: "SG." + m.draw(URLSAFE, 22) + "." + m.draw(URLSAFE, 43)),
    "mailgun": ("MAILGUN_API_KEY", lambda m: "key-" + m.draw(HEX, 32)),
    "npm": ("NPM_TOKEN", lambda m: "npm_" + m.draw(WORD, 36)),
    "pypi": ("TWINE_PASSWORD", lambda m: "pypi-AgEIcHlwaS5vcmc" + m.draw(URLSAFE, 140)),
    "docker": ("DOCKER_PAT", lambda m: "dckr_pat_" + m.draw(URLSAFE, 27)),
    "huggingface": ("HF_TOKEN", lambda m: "hf_" + m.draw(LETTERS, 34)),
    "supabase": ("SUPABASE_ACCESS_TOKEN", lambda m: "sbp_" + m.draw(HEX, 40)),
    "telegram": ("TELEGRAM_BOT_TOKEN", lambda m: m.draw("123456789", 10) + ":AA" + m.draw(URLSAFE, 33)),
    "digitalocean": ("DIGITALOCEAN_TOKEN", lambda m: "dop_v1_" + m.draw(HEX, 64)),
    "databricks": ("DATABRICKS_TOKEN", lambda m: "dapi" + m.draw(HEX, 32)),
    "linear": ("LINEAR_API_KEY", lambda m: "lin_api_" + m.draw(WORD, 40)),
    "notion": ("NOTION_TOKEN", lambda m: "ntn_" + m.draw(WORD, 46)),
    "figma": ("FIGMA_TOKEN", lambda m: "figd_" + m.draw(URLSAFE, 40)),
    "new-relic": ("NEW_RELIC_USER_KEY", lambda m: "NRAK-" + m.draw(string.ascii_uppercase + "123456", 27)),
    "grafana": ("GRAFANA_TOKEN", lambda m: "glsa_" + m.draw(WORD, 32) + "_" + m.draw(HEX, 8)),
    "vault": ("VAULT_TOKEN", lambda m: "hvs." + m.draw(URLSAFE, 94)),
    "terraform": ("TFE_TOKEN", lambda m: m.draw(WORD, 14) + ".atlasv1." + m.draw(URLSAFE, 67)),
    "groq": ("GROQ_API_KEY", lambda m: "gsk_" + m.draw(WORD, 52)),
    "xai": ("XAI_API_KEY", lambda m: "xai-" + m.draw(WORD, 80)),
    "replicate": ("REPLICATE_API_TOKEN", lambda m: "r8_" + m.draw(WORD, 37)),
    "perplexity": ("PERPLEXITY_API_KEY", lambda m: "pplx-" + m.draw(WORD, 48)),
    "datasette": ("DATASETTE_TOKEN", lambda m: "dstok_" + m.draw(URLSAFE, 70)),
    "jwt": ("SESSION_JWT", lambda m: m.jwt()),
    "rsa-key": ("DEPLOY_KEY", lambda m: m.pem("RSA PRIVATE KEY")),
    "openssh-key": ("SSH_KEY", lambda m: m.pem("OPENSSH PRIVATE KEY")),
    "pgp-key": ("SIGNING_KEY", lambda m: m.pem("PGP PRIVATE KEY BLOCK")),
}  # fmt: skip

#: These have no form: only a name, a header or an option tells them.
NAMED: dict[str, tuple[str, Draw]] = {
    "aws-secret": ("AWS_SECRET_ACCESS_KEY", lambda m: m.draw(WORD + "+/", 40)),
    "twilio-auth": ("TWILIO_AUTH_TOKEN", lambda m: m.draw(HEX, 32)),
    "datadog": ("DD_API_KEY", lambda m: m.draw(HEX, 32)),
    "cloudflare": ("CLOUDFLARE_API_TOKEN", lambda m: m.draw(URLSAFE, 40)),
    "heroku": ("HEROKU_API_KEY", lambda m: m.uuid()),
    "own-service": ("INVOICES_API_KEY", lambda m: m.draw(WORD, 32)),
    "flask": ("SECRET_KEY", lambda m: m.draw(HEX, 48)),
    "password": ("DB_PASSWORD", lambda m: m.password()),
    "phrase": ("POSTGRES_PASSWORD", lambda m: m.phrase()),
}


def _escaped(value: str, depth: int = 1) -> str:
    """``value`` as it stands in JSON, or in JSON in JSON."""
    for _ in range(depth):
        value = json.dumps(value, ensure_ascii=False)[1:-1]
    return value


def _contexts(name: str, value: str) -> Iterator[tuple[str, str, str]]:
    """(context, text, the secret in it) for a variable ``name``."""
    lower = name.lower()
    once, twice = _escaped(value), _escaped(value, 2)
    if "\n" not in value:
        yield "env", f"DEBUG=1\n{name}={value}\nPORT=8000\n", value
        yield "env-json", json.dumps({"content": f"DEBUG=1\n{name}={value}\nPORT=1"}), once
        yield "line-numbers", f"     1→# settings\n     2→{name}={value}\n     3→X=1", value
        yield "bearer", f"> Authorization: Bearer {value}\r\n> Accept: */*", value
        yield "docker", f"docker run --rm -e {name}={value} shop:latest", value
        yield "powershell", f"PS C:\\shop> $env:{name} = '{value}'", value
        yield "yaml", f"env:\n  {name}: {value}\n  PORT: 80\n", value
        yield "option", f"deploy --{lower.replace('_', '-')} {value} --region eu", value
    yield "export", f'export {name}="{value}"; make', value
    yield "json", json.dumps({"id": 7, lower: value, "on": True}), once
    yield "json-in-json", json.dumps({"stdout": json.dumps({name: value, "n": 1})}), twice
    yield "python", f'settings = dict(region="eu", {lower}="""{value}""")', value
    yield "diff", f'-{name} = "old"\n+{name} = "{value}"', value
    yield "tool-input", json.dumps({"command": f'curl -H "X-{name}: {value}" https://shop'}), once


def _prose(value: str) -> Iterator[tuple[str, str, str]]:
    yield "prose", f"I think {value} must be rotated, it is in the log.", value
    yield "markdown", f"The key was `{value}`.", value
    yield "terminal", f"\x1b[32m{value}\x1b[0m\nok", value


def positives(seed: int = 1, each: int = 4) -> Iterator[Sample]:
    make = Maker(seed)
    for kind, (name, draw) in FORMS.items():
        for _ in range(each):
            value = draw(make)
            for context, text, secret in (*_contexts(name, value), *_prose(value)):
                yield Sample(kind, context, text, secret)
    for kind, (name, draw) in NAMED.items():
        for _ in range(each):
            for context, text, secret in _contexts(name, draw(make)):
                yield Sample(kind, context, text, secret)
    for _ in range(each * 2):
        yield from _others(make)
    for _ in range(each):
        yield from _layouts(make)


#: Layouts in which a password stands, with a place for it.
PASSWORD_LAYOUTS = {
    "sql": "CREATE USER app WITH PASSWORD '{}';",
    "sql-by": "CREATE USER 'app'@'localhost' IDENTIFIED BY '{}';",
    "sql-with": "ALTER USER app IDENTIFIED WITH mysql_native_password BY '{}';",
    "yaml-name-value": '- name: DB_PASSWORD\n  value: "{}"\n- name: PORT\n  value: "80"\n',
    "yaml-name-plain": "- name: DB_PASSWORD\n  value: {}\n- name: PORT\n",
    "json-name-value": '{{"name": "DB_PASSWORD", "value": "{}"}}',
    "xml": "<server><username>app</username><password>{}</password></server>",
    "xml-namespace": "<wsse:Password>{}</wsse:Password>",
    "xml-named": '<string name="db_password">{}</string>',
    "xml-attribute": '<add key="DbPassword" value="{}" />',
    "html": "password=&quot;{}&quot;",
    "yaml-folded": "password: >-\n  {}\n",
    "yaml-literal": "  db_password: |\n    {}\nport: 80\n",
    "python-auth": 'requests.get(url, auth=("app", "{}"))',
    "python-basic": "client.get(url, auth=HTTPBasicAuth('app', '{}'))",
    "sudo": "echo {} | sudo -S apt install x",
    "sudo-quoted": "echo '{}' | sudo -S -p '' id",
    "docker-login": "echo '{}' | docker login ghcr.io -u ana --password-stdin",
    "chpasswd": "echo 'deploy:{}' | chpasswd",
    "chpasswd-sudo": 'echo "deploy:{}" | sudo chpasswd',
    "gh-secret": 'gh secret set DB_PASSWORD --body "{}"',
    "gh-secret-other": "gh secret set DEPLOY --repo ana/shop --body '{}'",
    "fish": "set -gx DB_PASSWORD {}",
    "setx": "setx DB_PASSWORD {}",
    "terraform": 'variable "db_password" {{\n  type = string\n  default = "{}"\n}}',
    "pgpass": "db.corp.dev:5432:shop:app:{}",
    "table": "| Name | Value |\n| --- | --- |\n| DB_PASSWORD | {} |\n",
    "table-code": "| `DB_PASSWORD` | `{}` |",
    "unicode-escape": '{{"a":"DB_PASSWORD\\u003d{}"}}',
    "pw": "host: db\npw: {}\n",
    "powershell": 'ConvertTo-SecureString "{}" -AsPlainText -Force',
    "prose": "use {} as the password",
    "url-cut": "psql postgres://app:{}…",
    "url-end": "DATABASE=postgres://app:{}",
    "url-truncated": "postgres://app:{}\n[output truncated]",
}


def _layouts(make: Maker) -> Iterator[Sample]:
    value = "T" + make.draw(WORD, 11) + "7x"
    for context, layout in PASSWORD_LAYOUTS.items():
        text = layout.format(value)
        yield Sample("password-layout", context, text, value)
        yield Sample("password-layout", f"{context}, json", json.dumps({"out": text}), value)
        yield Sample("password-layout", f"{context}, before", f"ls\n{text}\nexit 0\n", value)
    aws, number = make.draw(WORD, 38) + "/+", "837264" + make.draw("13579", 5)
    yield Sample("layout", "aws", f"AWS Secret Access Key [None]: {aws}", aws)
    yield Sample("layout", "number", f'{{"password": {number}, "port": 80}}', number)
    session = make.draw(HEX, 40)
    yield Sample("layout", "curl-b", f"curl -b 'sessionid={session}' https://x.corp.dev", session)
    jar = f"corp.dev\tFALSE\t/\tTRUE\t0\tsessionid\t{session}"
    yield Sample("layout", "cookie-jar", jar, session)
    yield Sample("layout", "cookie-jar, json", json.dumps(jar), session)
    user = base64.b64encode(f"ana:{value}".encode()).decode()
    docker = json.dumps({"auths": {"ghcr.io": {"auth": user}}})
    yield Sample("layout", "docker", docker, user)
    yield Sample("layout", "docker, json", json.dumps(docker), user)


def _others(make: Maker) -> Iterator[Sample]:
    """Secrets that come with a context of their own."""
    password = make.password()
    safe = urllib.parse.quote(password, safe="")
    for scheme in ("postgres", "mysql+pymysql", "mongodb+srv", "redis", "amqps", "https"):
        text = f"{scheme}://shop:{safe}@db7.internal:5432/shop?ssl=1"
        yield Sample("url", scheme, f"DATABASE_URL={text}", safe)
        yield Sample("url", scheme + "-json", json.dumps({"log": f"connecting to {text}\n"}), safe)
    key = make.base64(64)
    connection = (
        f"DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={key};EndpointSuffix=core"
    )
    yield Sample("azure-storage", "bare", connection, key)
    yield Sample("azure-storage", "json", json.dumps({"conn": connection}), key)
    user = base64.b64encode(f"ana:{password}".encode()).decode()
    yield Sample("basic", "header", f"Authorization: Basic {user}", user)
    yield Sample("basic", "json", json.dumps({"headers": {"Authorization": f"Basic {user}"}}), user)
    yield Sample("curl", "u", f"curl -s -u ana:{password} https://shop/api", password)
    yield Sample("mysql", "p", f"mysql -h db -u root -p{password} shop", password)
    yield Sample("sshpass", "p", f"sshpass -p '{password}' ssh ana@db", password)
    yield Sample(
        "netrc", "file", f"machine shop.test\n  login ana\n  password {password}\n", password
    )
    session = make.draw(WORD, 32)
    yield Sample("cookie", "header", f"Cookie: theme=dark; sessionid={session}", session)
    yield Sample("cookie", "set", f"set-cookie: sid={session}; Path=/; HttpOnly", session)
    hook = (
        f"T{make.draw(string.ascii_uppercase, 8)}/B{make.draw(string.ascii_uppercase, 8)}/"
        + make.draw(WORD, 24)
    )
    yield Sample("slack-webhook", "url", f"POST https://hooks.slack.com/services/{hook}", hook)
    pem = make.pem("PRIVATE KEY")
    yield Sample(
        "pem",
        "json",
        json.dumps({"type": "service_account", "private_key": pem + "\n"}),
        _escaped(pem),
    )
    yield Sample("pem", "numbered", "\n".join(f"{n:6}→{line}" for n, line in enumerate(pem.split("\n"), 1)),
                 pem.split("\n")[2])  # fmt: skip
    cut = pem[: len(pem) // 2]
    yield Sample("pem", "cut", cut, cut)
    token = "ghp_" + make.draw(WORD, 36)
    yield Sample("cut", "title", f"Set GITHUB_TOKEN to {token[:20]}…", token[:20])
    yield Sample("percent", "query", f"/login?next=%2F&x=a%3D{token}%26b", token)
    yield Sample("escape", "unicode", f'{{"url": "a\\u003d{token}\\u0026"}}', token)


#: Words of code; two to five of them make a name.
_CODE_WORDS = [
    "patient",
    "identifier",
    "column",
    "record",
    "form",
    "user",
    "profile",
    "cache",
    "view",
    "model",
    "item",
    "config",
    "value",
    "table",
    "index",
    "path",
    "manager",
    "session",
    "handler",
    "service",
    "response",
    "request",
    "status",
    "count",
    "total",
    "update",
    "create",
    "query",
    "result",
    "helper",
    "client",
    "server",
    "version",
    "page",
    "widget",
    "button",
    "route",
    "state",
    "message",
    "store",
    "action",
    "event",
    "context",
    "provider",
    "factory",
]


def code_name(rng: random.Random) -> str:
    """A name as it stands in code: patientRecordForm, user_profile_2, cache-view, TOTAL_COUNT."""
    words = [rng.choice(_CODE_WORDS) for _ in range(rng.randint(1, 5))]
    number = rng.choice(("", "", "2", "17"))
    return rng.choice(
        (
            words[0] + "".join(map(str.title, words[1:])) + number,
            "".join(map(str.title, words)) + number,
            "_".join(words) + number,
            "-".join(words),
            "".join(words),
            "_".join(words).upper(),
            "v2_" + "_".join(words),
        )
    )


def prefixed_names(prefixes: tuple[str, ...], seed: int = 3, each: int = 12) -> Iterator[Sample]:
    """Names that begin as keys do, where texts end and where titles are cut off."""
    rng = random.Random(seed)
    for prefix in prefixes:
        for _ in range(each):
            name = prefix + code_name(rng)
            for text in (name, f"fix {name}…", f"fix {name}...", f"see {name} in the form"):
                yield Sample("name", prefix, text)


def negatives(seed: int = 2, each: int = 24) -> Iterator[Sample]:
    make = Maker(seed)
    for _ in range(each):
        for kind, text in _harmless(make):
            yield Sample(kind, "none", text)


def _harmless(make: Maker) -> Iterator[tuple[str, str]]:
    pick, draw = make.random.choice, make.draw
    image = "iVBORw0KGgoAAAANSUhEUgAA" + make.base64(300)
    digest = hashlib.sha256(make.random.randbytes(8)).hexdigest()
    yield (
        "uuid",
        json.dumps({"uuid": make.uuid(), "parentUuid": make.uuid(), "sessionId": make.uuid()}),
    )
    yield (
        "tool-id",
        json.dumps({"type": "tool_use", "id": "toolu_01" + draw(WORD, 22), "name": "Read"}),
    )
    yield "call-id", json.dumps({"call_id": "call_" + draw(WORD, 24), "name": "shell"})
    yield (
        "message-id",
        json.dumps({"id": "msg_01" + draw(WORD, 22), "requestId": "req_011" + draw(WORD, 21)}),
    )
    yield "response-id", json.dumps({"id": "resp_" + draw(HEX, 50), "item": "rs_" + draw(HEX, 48)})
    yield (
        "image",
        json.dumps({"source": {"type": "base64", "media_type": "image/png", "data": image}}),
    )
    yield "data-url", f"![](data:image/png;base64,{image})"
    yield "signature", json.dumps({"type": "thinking", "signature": make.base64(240)})
    yield "encrypted", json.dumps({"encrypted_content": "gAAAAAB" + draw(URLSAFE, 400)})
    yield (
        "package-lock",
        json.dumps(
            {"node_modules/x": {"version": "4.17.21", "integrity": "sha512-" + make.base64(64)}}
        ),
    )
    yield (
        "yarn-lock",
        f'x@^1.2.0:\n  resolved "https://yarn.test/x.tgz#{draw(HEX, 40)}"\n  integrity sha512-{make.base64(64)}',
    )
    yield "poetry-lock", f'{{file = "x-1.0-py3-none-any.whl", hash = "sha256:{digest}"}},'
    yield "cargo-lock", f'name = "tokio"\nversion = "1.38.0"\nchecksum = "{digest}"'
    yield "go-sum", f"golang.org/x/crypto v0.24.0 h1:{make.base64(32)}"
    yield "commit", f"commit {draw(HEX, 40)}\nAuthor: Ana\n\n    Rename the token field"
    yield (
        "tree",
        f"100644 blob {draw(HEX, 40)}\tsrc/auth/token.py\n040000 tree {draw(HEX, 40)}\tsecrets",
    )
    yield "index", f"index {draw(HEX, 7)}..{draw(HEX, 7)} 100644"
    yield "docker", f"Digest: sha256:{digest}\nStatus: Downloaded newer image"
    yield "checksum", f"{digest}  dist/shop-1.0.tar.gz"
    yield (
        "minified",
        f"!function(e,t){{var n={{key:t.key,token:e.token}};return n.secret=r(n,{draw('abcdef', 1)}),a.password||i.pass}}(w,{{k:1}});",
    )
    yield (
        "source-map",
        json.dumps(
            {"version": 3, "sources": ["a.ts"], "mappings": "AAAA;" + draw(WORD[:52] + ",;", 300)}
        ),
    )
    yield "certificate", make.pem("CERTIFICATE")
    yield "public-key", make.pem("PUBLIC KEY")
    yield "ssh-public", f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{draw(WORD, 43)} ana@laptop"
    yield "publishable", f"NEXT_PUBLIC_STRIPE_KEY=pk_test_{draw(WORD, 24)}"
    yield (
        "usage",
        json.dumps(
            {"input_tokens": make.random.randrange(99999), "max_tokens": 4096, "token_count": 17}
        ),
    )
    yield (
        "css",
        f".token{{color:#{draw(HEX, 6)}}} .password-field{{background:url(a.svg#{draw(HEX, 6)})}}",
    )
    yield "font", f"@font-face{{src:url(data:font/woff2;base64,{make.base64(120)})}}"
    yield "freeze", "cryptography==42.0.8\ntokenizers==0.19.1\npasslib==1.7.4\nsecretstorage==3.3.3"
    yield (
        "coverage",
        "src/token.py      120     12    90%   14-19, 33\nsrc/secret.py      40      0   100%",
    )
    yield "path", f"/home/ana/.claude/projects/-home-ana-src-tokens/{make.uuid()}.jsonl"
    yield "page-token", json.dumps({"nextPageToken": make.base64(48), "items": []})
    yield "etag", f'etag: W/"{draw(HEX, 32)}"\ncache-control: no-cache'
    yield (
        "ids",
        json.dumps(
            {
                "key": draw(HEX, 24),
                "cacheKey": draw(HEX, 40),
                "primary_key": "id",
                "row_key": make.uuid(),
            }
        ),
    )
    yield (
        "placeholder",
        pick(
            (
                "ANTHROPIC_API_KEY=your-api-key-here",
                "OPENAI_API_KEY=sk-...",
                "export GITHUB_TOKEN=<your token>",
                "DB_PASSWORD=changeme",
                "password: ${DB_PASSWORD}",
                "API_KEY={{ secrets.API_KEY }}",
                "STRIPE_SECRET_KEY=sk_live_xxxxxxxxxxxxxxxxxxxxxxxx",
                "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE",
                "TOKEN=" + "x" * 40,
                "GH_TOKEN=ghp_" + "1234567890abcdefghijklmnopqrstuvwxyz",
                "postgres://user:password@localhost:5432/db",
                "https://user:pass@example.com/",
                "Authorization: Bearer YOUR_TOKEN",
                "Authorization: Bearer $TOKEN",
                "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
                'headers = {"Authorization": f"Bearer {token}"}',
                "curl -u user:password https://example.com",
                "mysql -u root -p shop",
                "SECRET_KEY=[secret:named-secret:1f3a9c]",
                "password: '********'",
                "CREATE USER app WITH PASSWORD '${DB_PASSWORD}';",
                "CREATE USER app IDENTIFIED BY 'password';",
                "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: db-secret-2\n",
                '- name: DB_PASSWORD\n  value: "$(DB_PASSWORD)"\n',
                "<password>${env.DB_PASSWORD}</password>",
                "<password>your password</password>",
                "socks5h://<username>:<password>@proxy-host:1080",
                'requests.get(url, auth=("user", "password"))',
                'requests.get(url, auth=("app", os.environ["DB_PASSWORD"]))',
                "echo $PASSWORD | sudo -S apt install x",
                'echo "$CR_PAT" | docker login ghcr.io -u USERNAME --password-stdin',
                'gh secret set DB_PASSWORD --body "$DB_PASSWORD"',
                "AWS Secret Access Key [None]: ",
                'variable "db_password" {\n  type = string\n  sensitive = true\n}',
                "| DB_PASSWORD | The password of the database |",
                "| password | string | required |",
                "postgres://user:password…",
                "http://localhost:8000…",
                "redis://cache:6379",
                "docker://registry:2",
            )
        ),
    )
    yield (
        "code",
        pick(
            (
                'password = request.form["password"]',
                'token = os.environ["GITHUB_TOKEN"]',
                "const apiKey = process.env.OPENAI_API_KEY;",
                "secret = settings.SECRET_KEY",
                "const token = await getToken(user.id)",
                "def login(self, user: str, password: str) -> Token:",
                'parser.add_argument("--token", default=None, help="API token")',
                "if (password !== confirmPassword) throw new Error('mismatch')",
                "access_token = response.json()['access_token']",
                "private_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)",
                "password_hash = bcrypt.hashpw(password.encode(), bcrypt.gensalt())",
                'token: str = Field(..., description="session token")',
                "this.secretKey = secretKey ?? defaultSecretKey2;",
                "tokenizer = AutoTokenizer.from_pretrained('bert-base-uncased')",
                "for token in re.findall(r'[A-Za-z0-9_]{3,}', text):",
                "csrf_token = generate_csrf_token_v2(session)",
                "client = Client(api_key=api_key, secret=client_secret_value1)",
                "(r'(join|keep|pass|password|put|read|reduce)', Keyword),",
                "if user.password | flags_2:",
                "echo $password | sha256sum",
                '<label for=\'password\'>Password1</label><input name="password" value="">',
                '<input type="password" id="password1" name="password" />',
                "<T extends Token>(token: T) => Promise<Token2>",
                "pw = tf.keras.layers.Dense2",
                "const pw = browser.newPage1();",
                '{"auth": "required"}',
                "use token_2 as the primary key",
                "with open(path) as password_file:",
                'assert form.password.errors == ["Must be at least 12 characters"]',
            )
        ),
    )
    yield (
        "schema",
        json.dumps(
            {
                "properties": {
                    "password": {"type": "string", "minLength": 12},
                    "api_key": {"type": "string", "format": "uuid"},
                }
            }
        ),
    )
    yield (
        "labels",
        json.dumps(
            {
                "password": "Passwort",
                "forgotPassword": "Passwort vergessen?",
                "tokenLabel": "API-Token",
                "secret": "Geheimnis 1",
            }
        ),
    )
    yield "prose", pick(
        (
            "Set the token budget to 20000 and retry.",
            "The password field must be at least 12 characters long.",
            "Rotate the API key in the dashboard, then redeploy.",
            "The secret to fast tests is fewer fixtures.",
            "Basic authentication is used where no bearer token is given.",
            "The primary key is conversations_id_seq and the token is JWT-based.",
            "Cookie: a small file. Sessions end when the token expires (see RFC 6265).",
            "The key is UserProfileCacheV2 and the secret is in Vault.",
            "He asked: password: what was it again? I said the token was gpt-5-codex-2026-11-30.",
            "The API key is stored in ~/.config/shop/credentials.json.",
        )
    )  # fmt: skip
    yield (
        "model",
        json.dumps(
            {"model": "claude-opus-4-5-20251101", "token_type": "Bearer", "key": "sort_order_2"}
        ),
    )
    yield (
        "url",
        pick(
            (
                "https://shop.test:8443/a@b/c:d",
                "git@github.com:ana/shop.git",
                "https://cdn.test/x@1.2.3/dist/x.min.js",
                "http://localhost:8001/-/crystal",
            )
        ),
    )
    yield (
        "arn",
        f"arn:aws:secretsmanager:eu-west-1:{draw('123456789', 12)}:secret:shop/db-{draw(WORD, 6)}",
    )
