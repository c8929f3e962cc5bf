"""What is found, what is left alone, and at what price."""

from __future__ import annotations

import ast
import base64
import itertools
import json
import random
import string
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from secret_samples import (
    FORMS,
    PASSWORD_LAYOUTS,
    WORD,
    Maker,
    Sample,
    negatives,
    positives,
    prefixed_names,
)

from datasette_crystal import secret_rules
from datasette_crystal.secret_rules import (
    RULES,
    Finding,
    Rule,
    RuleError,
    canonical,
    find,
    load_rules,
    mask,
)


def covered(sample: Sample) -> bool:
    start = sample.text.index(sample.secret)
    end = start + len(sample.secret)
    return any(f.start <= start and f.end >= end for f in find(sample.text))


@pytest.fixture(scope="module")
def recall() -> dict[str, tuple[int, int]]:
    """kind: (found, all) - found where a finding covers the whole secret."""
    found: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for sample in positives():
        total[sample.kind] += 1
        found[sample.kind] += covered(sample)
    return {kind: (found[kind], total[kind]) for kind in total}


def test_the_set_is_as_large_as_it_should_be() -> None:
    samples = list(positives())
    assert len({sample.kind for sample in samples}) >= 28
    contexts: dict[str, set[str]] = {}
    for sample in samples:
        contexts.setdefault(sample.kind, set()).add(sample.context)
    assert all(len(contexts[kind]) >= 9 for kind in FORMS)
    assert len(list(negatives())) >= 1000


def test_nearly_all_secrets_are_found(recall: dict[str, tuple[int, int]]) -> None:
    found, total = (sum(counts) for counts in zip(*recall.values(), strict=True))
    assert found / total >= 0.97, {k: v for k, v in recall.items() if v[0] < v[1]}
    found, total = (sum(c) for c in zip(*(recall[kind] for kind in FORMS), strict=True))
    assert found / total >= 0.99, {k: v for k, v in recall.items() if v[0] < v[1]}


def test_no_kind_is_missed_often(recall: dict[str, tuple[int, int]]) -> None:
    assert {kind: counts for kind, counts in recall.items() if counts[0] < 0.9 * counts[1]} == {}


def test_harmless_text_is_left_alone() -> None:
    samples = list(negatives())
    wrong = [sample for sample in samples if find(sample.text)]
    assert len(wrong) <= 0.005 * len(samples), [sample.text[:100] for sample in wrong]


def test_names_that_begin_as_keys_do_are_left_alone() -> None:
    """pat, re_, fw_, sl., EAA, oy2 begin words and names too; and names are made of words."""
    by_prefix = {
        literal for rule in RULES if "prefix" in rule.regex.groupindex for literal in rule.literals
    }
    assert {"pat", "re_", "fc-", "sl.", "EAA", "oy2", "key_", "pul-", "secret_"} <= by_prefix
    samples = list(prefixed_names(tuple(sorted(by_prefix))))
    wrong = [sample.text for sample in samples if find(sample.text)]
    assert len(samples) > 5000
    assert len(wrong) <= 0.001 * len(samples), wrong
    assert find("check patientIdenti…") == find("The class patientRecordForm") == []


def test_what_is_left_of_a_key_is_found() -> None:
    """Half of a key at the end of a text, before an ellipsis, and before three dots."""
    make = Maker(9)
    found = total = 0
    for name in ("github", "anthropic", "openai-project", "stripe", "gitlab", "groq", "pypi"):
        for _ in range(20):
            key = FORMS[name][1](make)
            key = key[: max(28, len(key) // 2)]
            for text in (f"Use {key}…", f"Use {key}...", f"Use {key}"):
                total += 1
                found += any(key[:24] in finding.value for finding in find(text))
    assert found >= 0.95 * total


def adversarial(size: int) -> dict[str, str]:
    """Texts that make patterns go back and forth: literals of rules, and openings, over and over."""
    units = {rule.literals[0] for rule in RULES}
    units |= {literal + "a" for rule in RULES if rule.by_context for literal in rule.literals}
    units |= {
        "a",
        "A",
        "0",
        ":",
        "eyJ",
        "://",
        '"',
        "A=",
        "=",
        "\\",
        "\n",
        "aA0",
        "a.",
        "eyJ.",
        "{",
    }
    units |= {
        "password=",
        'password="',
        "token='a",
        'password=\\"',
        "cookie: a=",
        "://a:",
        "key is the ",
        "pw:",
        "password,\n",
        "password: |\n ",
        "name: password\nvalue: ",
        "<password>",
        "| password | ",
        "echo a",
        "echo a | ",
        "secret set a -a a ",
        'variable "password" { ',
        ":5432:a",
        "auth=('a', 'a",
        "postgres://a:",
        "password '",
        "\x1b[",
        "\x1b[31m",
        "\x1b]a",
        "\\u001b[",
        "\\u001b]a",
        "-----END PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----" + "aA0" * 20,
        "aA0" * 20 + "-----END PRIVATE KEY-----",
    }
    units |= {
        "-----BEGIN PRIVATE KEY-----\n",
        "login a password ",
        "password: a ",
        "secret=,a",
        "A" * 40,
    }
    openings = ("", "password=", 'password="', "Bearer ", "eyJ", "://a:", "sk-ant-")
    texts = {unit: (unit * (size // len(unit) + 1))[:size] for unit in sorted(units)}
    for opening in openings[1:]:
        for unit in ("a", "0", "=", ":", "\\", "aA0", "a.", "a,", "A" * 64 + "\n"):
            texts[opening + unit] = opening + (unit * (size // len(unit) + 1))[:size]
    key = "-----BEGIN PRIVATE KEY-----\n"
    texts["pem"] = key + ("A" * 40 + "\n") * (size // 41)
    texts["pem "] = key + "A" * 40 + " A" * (size // 2)
    return texts


def cpu(text: str) -> float:
    start = time.process_time()
    find(text)
    return time.process_time() - start


def test_time_grows_with_the_text_and_not_faster() -> None:
    small, large = adversarial(6000), adversarial(12000)
    for unit in small:
        # a pattern that tried every character from every character would take half a second
        if cpu(large[unit]) < 0.1:
            continue
        for _ in range(6):
            ratio = (cpu(large[unit]) + 0.001) / (cpu(small[unit]) + 0.001)
            if ratio < 2.6:
                break
        else:
            pytest.fail(f"{unit!r}: twice the text takes {ratio:.1f} times as long")


@pytest.mark.parametrize(
    "unit", ["password=", "pw:", "bearer%20a", "AccountKey=", "dstok_", "cookie: a="]
)
def test_what_is_refused_is_not_looked_at_over_and_over(unit: str) -> None:
    """Every place is a beginning of a match that reaches far, and none is a secret."""
    text = (unit * 40_000)[:300_000]
    # with a second look at every place this takes three seconds and more
    assert min(cpu(text) for _ in range(2)) < 1.5
    secret = "ghp_" + Maker(16).draw(WORD, 36)
    after = find(f"{text} {secret} DB_PASSWORD=Tq8vLm3kV7")
    assert [f.value for f in after][-2:] == [secret, "Tq8vLm3kV7"]


@pytest.mark.parametrize(
    ("text", "kind", "secret"),
    [
        ("redis://:Tr0ub4dor&9@cache:6379/0", "url-password", "Tr0ub4dor&9"),
        ('"db_password": "v3lvet\\"otter"', "named-secret", 'v3lvet\\"otter'),
        ("$env:DB_PASSWORD = 'Marble#81x'", "named-secret", "Marble#81x"),
        ("POSTGRES_PASSWORD=correcthorse", "named-secret", "correcthorse"),
        ("password: otter4217", "named-secret", "otter4217"),
        ("the password is Kx9vQ2mPz7Lr4TnW.", "named-secret", "Kx9vQ2mPz7Lr4TnW"),
        ("\\nSTRIPE_KEY=rk_live_" + "9aZ8bY7cX6dW5eV4fU3g", "stripe-key", "rk_live_9aZ8bY7cX6dW5eV4fU3g"),
    ],
)  # fmt: skip
def test_one_secret_is_found(text: str, kind: str, secret: str) -> None:
    (finding,) = find(text)
    assert (finding.kind, finding.value) == (kind, secret)
    assert text[finding.start : finding.end] == secret


@pytest.mark.parametrize(
    "form",
    [
        "api_key: {}\n",
        "api_key={}",
        "client_secret: {}\n",
        "token: {}\n",
        'curl -H "X-Api-Key: {}" https://api.corp.dev',
        'curl -H "X-Vault-Token: {}"',
        "https://api.corp.dev/v1?api_key={}&q=1",
        "//npm.corp.dev/:_authToken={}",
    ],
)
@pytest.mark.parametrize("letters", [string.ascii_letters, string.ascii_lowercase])
def test_a_token_without_quotes_or_signs_is_no_name_in_code(form: str, letters: str) -> None:
    """Most tokens begin with a letter and have no signs, as names in code do."""
    rng = random.Random(form)
    missed = 0
    for _ in range(200):
        value = rng.choice(letters) + "".join(rng.choices(letters + string.digits, k=31))
        missed += all(value not in finding.value for finding in find(form.format(value)))
    # a few have so long runs of letters that they pass for words
    assert missed <= 12


@pytest.mark.parametrize(
    "text",
    [
        "日志里有一个 Bearer 令牌（这里是占位符），建议在记录之前去掉。",
        "password: 请输入8位以上的密码",
        '"password": "パスワードは8文字以上"',
    ],
)
def test_words_without_spaces_are_no_secrets(text: str) -> None:
    assert find(text) == []


@pytest.mark.parametrize(
    "text",
    [
        'authorization = headers.get(b"authorization", b"")',
        "token = binascii.a2b_hex(utf8(cookie))",
        "async function f(e){e.password=null;let i=await g(e)}",
        "passphrase: tOptional(tString),",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ],
)
def test_code_is_no_secret(text: str) -> None:
    assert find(text) == []


def test_the_form_names_the_kind_where_a_name_finds_the_same() -> None:
    token = "ghp_" + Maker(5).draw(WORD, 36)
    (finding,) = find(f"GITHUB_TOKEN={token}")
    assert (finding.kind, finding.value) == ("github-token", token)


def test_the_same_secret_has_the_same_value_in_json() -> None:
    pem = Maker(6).pem("PRIVATE KEY")
    plain, escaped, twice = (
        find(text)[0].value
        for text in (pem, json.dumps({"x": pem}), json.dumps({"x": json.dumps(pem)}))
    )
    assert canonical(plain) == canonical(escaped) == canonical(twice) == pem


def test_a_key_that_a_title_cuts_off_is_found() -> None:
    key = "sk-ant-api03-" + Maker(7).draw(WORD, 20)
    assert find(f"Use {key}…")[0].value == key


@pytest.mark.parametrize("layout", PASSWORD_LAYOUTS)
def test_a_password_is_found_in_the_layouts_of_everyday(layout: str) -> None:
    value = "Tq8vLm3kV7rZ2mx"
    for text in (
        PASSWORD_LAYOUTS[layout].format(value),
        json.dumps(PASSWORD_LAYOUTS[layout]).format(value),
    ):
        assert [finding.value for finding in find(text)] == [value]


#: How tools print the lines of a file: name, what becomes of the lines.
LAYOUTS: dict[str, Callable[[list[str]], str]] = {
    "edit with line numbers": lambda lines: "\n".join(
        f"   {n} + {line}" for n, line in enumerate(lines, 8)
    ),
    "grep -n": lambda lines: "\n".join(
        f"deploy/key.pem:{n}:{line}" for n, line in enumerate(lines, 1)
    ),
    "grep -C": lambda lines: "\n".join(f"key.pem-{n}-{line}" for n, line in enumerate(lines, 1)),
    "joined strings": lambda lines: "\n".join(f'    "{line}\\n" +' for line in lines),
    "joined strings in JSON": lambda lines: json.dumps(
        "\n".join(f'    "{line}\\n" +' for line in lines)
    ),
    "C strings": lambda lines: "\n".join(f'  "{line}\\n"' for line in lines),
    "array": lambda lines: "[\n" + ",\n".join(f"  '{line}'" for line in lines) + "\n].join('\\n')",
    "JSON array": json.dumps,
    "JSON array, indented": lambda lines: json.dumps(lines, indent=4),
    "frame": lambda lines: "\n".join(f"│ {line:64} │" for line in lines),
    "ends shown": lambda lines: "$\n".join(lines),
    "br": "<br>".join,
    "percent": "%0A".join,
    "percent, CR": "%0D%0A".join,
    "unicode escape": "\\u000a".join,
    "carriage returns": "\r\n".join,
    "empty lines": "\n\n".join,
    "indented": lambda lines: "\n".join(" " * 60 + line for line in lines),
    "coloured diff": lambda lines: "\n".join(
        f"\x1b[32m+\x1b[m\x1b[32m{line}\x1b[m" for line in lines
    ),
    "coloured diff in JSON": lambda lines: json.dumps(
        "\n".join(f"\x1b[32m+\x1b[m\x1b[32m{line}\x1b[m" for line in lines)
    ),
    "quoted mail": lambda lines: "\n".join(f"> > {line}" for line in lines),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("part", ["whole", "without its beginning", "cut off"])
def test_a_private_key_is_found_however_its_lines_are_printed(layout: str, part: str) -> None:
    make = Maker(11)
    body = [make.draw(WORD + "+/", 64) for _ in range(8)] + [make.draw(WORD, 37) + "="]
    lines = ["-----BEGIN RSA PRIVATE KEY-----", *body, "-----END RSA PRIVATE KEY-----"]
    if part == "without its beginning":
        lines, body = lines[4:], body[3:]
    elif part == "cut off":
        # the last line that is left is whole here
        lines, body = lines[:6], body[:5]
    text = f"Here it is:\n{LAYOUTS[layout](lines)}\nThat was all. {make.uuid()}"
    findings = find(text)
    assert {finding.kind for finding in findings} == {"private-key"}
    for line in body:
        start = text.index(line)
        assert any(f.start <= start and start + len(line) <= f.end for f in findings)
    assert findings[0].start >= text.index("it is:") + 6
    assert findings[-1].end <= text.index("That was all")


@pytest.mark.parametrize("name", ["OPENSSH PRIVATE KEY", "PRIVATE KEY"])
def test_the_zeros_in_a_private_key_are_no_sign_of_an_example(name: str) -> None:
    """What OpenSSH writes begins with its magic and lengths: many zeros, AAAA in base64."""
    magic = b"openssh-key-v1\0" + b"".join(
        len(part).to_bytes(4, "big") + part for part in (b"none", b"none", b"")
    )
    data = magic + (1).to_bytes(4, "big") + (51).to_bytes(4, "big")
    encoded = base64.b64encode(data + random.Random(12).randbytes(180)).decode()
    assert "A" * 8 in encoded[:70]
    lines = [encoded[i : i + 70] for i in range(0, len(encoded), 70)]
    pem = "\n".join([f"-----BEGIN {name}-----", *lines, f"-----END {name}-----"])
    assert [f.value for f in find(f"cat id_ed25519\n{pem}\n")] == [pem]
    assert [f.value for f in find(json.dumps({"x": pem}))] == [json.dumps(pem)[1:-1]]


def test_certificates_and_talk_of_keys_are_no_private_keys() -> None:
    make = Maker(13)
    certificate = make.pem("CERTIFICATE")
    for text in (
        f"{certificate}\n" + "and so on, " * 30 + "\n-----END PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{'and so on ' * 30}\n{certificate}",
        'if "-----BEGIN PRIVATE KEY-----" in text or "-----END PRIVATE KEY-----" in text:',
        "-----BEGIN PRIVATE KEY-----\nyour key here\n-----END PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{'x' * 64}\n{'x' * 64}\n-----END PRIVATE KEY-----",
    ):
        assert find(text) == []


@pytest.mark.parametrize(
    "form",
    [
        ".env:3:TOKEN is \x1b[01;31m\x1b[K{}\x1b[m\x1b[K",
        "\x1b[38;5;208m{}\x1b[0m",
        "\x1b[38;2;230;219;116m{}\x1b[0m",
        "\x1b[m{}",
        "key\x1b[m{}",
        "\x1b[1mx\x1b[38;5;208m{}\x1b[0m",
        "\x1b]8;;https://shop.test\x07{}\x1b]8;;\x07",
        "\\u001b[38;5;208m{}\\u001b[0m",
        "\\x1b[1;31m{}\\x1b[0m",
        "\\033[1;38;5;208m{}\\033[0m",
    ],
)
def test_colours_before_and_after_a_key_hide_nothing(form: str) -> None:
    key = "ghp_" + Maker(14).draw(WORD, 36)
    assert [finding.value for finding in find(form.format(key))] == [key]


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[36mDB_PASSWORD\x1b[0m=\x1b[33mTq8vLm3kV7\x1b[0m",
        "\x1b[36mpassword\x1b[0m: \x1b[33mTq8vLm3kV7\x1b[0m",
        '{\x1b[34;1m"password"\x1b[0m: \x1b[32m"Tq8vLm3kV7"\x1b[0m}',
        json.dumps({"out": "\x1b[36mDB_PASSWORD\x1b[0m=\x1b[33mTq8vLm3kV7\x1b[0m"}),
        json.dumps(json.dumps({"out": "\x1b[36mDB_PASSWORD\x1b[0m=\x1b[33mTq8vLm3kV7\x1b[0m"})),
    ],
)
def test_colours_between_name_and_value_hide_nothing(text: str) -> None:
    assert [finding.value for finding in find(text)] == ["Tq8vLm3kV7"]


def test_colours_within_a_key_are_part_of_the_finding_and_not_of_the_secret() -> None:
    key = Maker(15).draw(WORD, 36)
    text = f"a \x1b[31mghp_\x1b[m\x1b[K{key[:9]}\x1b[7m{key[9:]}\x1b[m b"
    (finding,) = find(text)
    assert finding.value == f"ghp_\x1b[m\x1b[K{key[:9]}\x1b[7m{key[9:]}"
    assert canonical(finding.value) == "ghp_" + key
    escaped = json.dumps(text)
    (finding,) = find(escaped)
    assert canonical(finding.value) == "ghp_" + key
    # the rest is JSON still
    left = json.loads(escaped[: finding.start] + "[secret]" + escaped[finding.end :])
    assert left == "a \x1b[31m[secret]\x1b[m b"


def test_findings_do_not_show_the_secret() -> None:
    for sample in positives(seed=3, each=1):
        for finding in find(sample.text):
            shown = repr(finding) + finding.preview
            secret = finding.value
            assert secret not in shown
            # nothing but the first four characters
            assert not any(
                secret[i : i + 8] in shown
                for i in range(4, len(secret) - 8)
                if "BEGIN" not in secret
            )
    assert mask("otter4217") == "... (9 characters)"


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 2**32), min_size=1, max_size=4), st.text(max_size=30))
def test_findings_are_in_order_and_replacing_them_leaves_none(seeds: list[int], glue: str) -> None:
    samples = list(positives(seed=4, each=1))
    text = glue.join(samples[seed % len(samples)].text for seed in seeds)
    findings = find(text)
    for before, after in itertools.pairwise(findings):
        assert before.end <= after.start
    assert all(text[f.start : f.end] == f.value for f in findings)
    for number, finding in reversed(list(enumerate(findings))):
        text = f"{text[: finding.start]}[secret:{finding.kind}:{number:08x}]{text[finding.end :]}"
    assert find(text) == []


@settings(deadline=None)
@given(st.text())
def test_any_text_can_be_searched(text: str) -> None:
    assert all(isinstance(finding, Finding) for finding in find(text))


def test_letters_that_grow_in_lower_case_do_not_move_findings() -> None:
    text = "İ" * 9 + " PASSWORD=Marble#81x"
    assert [f.value for f in find(text)] == ["Marble#81x"]


def test_it_imports_nothing_of_datasette() -> None:
    tree = ast.parse(Path(secret_rules.__file__).read_text("utf-8"))
    names = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any(name.startswith(("datasette", "sqlite_utils")) for name in names)


def test_every_literal_of_a_rule_is_needed_for_its_pattern() -> None:
    """Where no literal stands, the pattern finds nothing: the shortcut loses nothing."""
    rules = [
        Rule(
            r.kind,
            r.pattern,
            (),
            r.group if r.group != "found" else 0,
            r.check,
            "",
            r.ignore_case,
            None,
            spans=r.spans,
        )
        for r in RULES
    ]
    for sample in random.Random(8).sample(list(positives()), 300):
        slow = {(f.start, f.end) for f in find(sample.text, rules)}
        quick = {(f.start, f.end) for f in find(sample.text)}
        assert quick >= slow, sample


# --- rules of the user's own


def rules_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rules.yml"
    path.write_text(text)
    return path


def test_own_rules(tmp_path: Path) -> None:
    path = rules_file(
        tmp_path,
        "rules:\n- kind: acme-key\n  pattern: 'ACME[0-9]{6}'\n  literals: [acme]\n  ignore_case: true\n"
        "- {kind: badge, pattern: 'badge (\\d{4})', group: 1}\n",
    )
    found = find("acme123456, badge 7777", load_rules(path))
    assert [(f.kind, f.value) for f in found] == [("acme-key", "acme123456"), ("badge", "7777")]


def test_own_rules_in_json(tmp_path: Path) -> None:
    path = rules_file(tmp_path, json.dumps([{"kind": "k", "pattern": "Z{9}"}]))
    assert [f.value for f in find("ZZZZZZZZZ", load_rules(path))] == ["ZZZZZZZZZ"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "list of rules"),
        ("rules: 3", "list of rules"),
        ("- 5", "rule 1 should be a mapping"),
        ("- kind: a", "rule 1: pattern is missing"),
        ("- {kind: A b, pattern: x}", "kind 'A b'"),
        ("- {kind: a, pattern: '('}", "not a regular expression"),
        ("- {kind: a, pattern: 'x*'}", "matches nothing"),
        ("- {kind: a, pattern: x, group: 1}", "no group 1"),
        ("- {kind: a, pattern: x, literals: 5}", "literals"),
        ("- {kind: a, pattern: x, patern: y}", "unknown field 'patern'"),
        ("- {kind: a, pattern: x", "not YAML or JSON, line 1"),
        ("- {kind: a, pattern: '(a+)+$'}", "takes too long"),
        ("- {kind: a, pattern: 'key[a-z]*[0-9]'}", "takes too long"),
    ],
)
def test_unusable_rules_are_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RuleError) as caught:
        load_rules(rules_file(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "rules.yml" in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RuleError, match="UTF-8"):
        load_rules(tmp_path / "rules.yml")
