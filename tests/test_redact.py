"""Redaction of texts."""

from __future__ import annotations

import base64
import json
import random
import string
import time
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasette_crystal.redact import Redactor, distinctive, is_placeholder, users_in


def token(kind: str, length: int, seed: int = 1) -> str:
    """A key that was never anybody's."""
    draw = random.Random(f"{kind}{seed}")
    return kind + "".join(draw.choices(string.ascii_letters + string.digits, k=length))


GITHUB = token("gh" + "p_", 36)
ANTHROPIC = token("sk-ant-" + "api03-", 93) + "AA"
PASSWORD = "kV7#rZq2!mWx9@Lp"


def redactor(**values: Any) -> Redactor:
    values.setdefault("key", b"fixed")
    return Redactor(**values)


# --------------------------------------------------------------------------- secrets


def test_secret_becomes_a_labelled_fingerprint() -> None:
    result = redactor().redact(f"push with {GITHUB} please")
    assert result.startswith("push with [secret:github-") and result.endswith("] please")
    assert GITHUB[4:12] not in result


def test_equal_secrets_stay_equal_and_others_differ() -> None:
    one = redactor()
    other = token("gh" + "p_", 36, seed=2)
    first, second, third = (
        one.redact(text) for text in (f"a {GITHUB}", f"a {other}", f"a {GITHUB}")
    )
    assert first == third != second
    assert second.startswith("a [secret:")


def test_fingerprints_differ_between_publications_unless_the_key_is_the_same() -> None:
    text = f"x {GITHUB}"
    assert Redactor().redact(text) != Redactor().redact(text)
    assert redactor().redact(text) == redactor().redact(text)


def test_a_secret_that_its_name_gave_away_goes_wherever_else_it_stands() -> None:
    one = redactor()
    one.redact(f"DB_PASSWORD={PASSWORD}")
    assert PASSWORD not in one.redact(f"I typed {PASSWORD} into it")
    assert quote(PASSWORD, safe="") not in one.redact(f"?p={quote(PASSWORD, safe='')}&x=1")


def test_a_password_that_is_a_word_goes_only_where_it_is_one() -> None:
    assert not distinctive("postgres")
    assert not distinctive("short1!")
    assert distinctive(PASSWORD) and distinctive(GITHUB)


def test_secret_in_base64_and_in_wrapped_base64() -> None:
    text = f"# settings\nGITHUB_TOKEN={GITHUB}\nDEBUG=1\nNAME=value of some length\n"
    encoded = base64.b64encode(text.encode()).decode()
    assert encoded[20:60] not in redactor().redact(f"data: {encoded}")
    wrapped = "\n".join(encoded[at : at + 76] for at in range(0, len(encoded), 76))
    result = redactor().redact(wrapped)
    assert base64.b64encode(GITHUB[:18].encode()).decode()[:20] not in result
    assert result.startswith("[secret:base64:")


def test_ordinary_base64_stays() -> None:
    image = base64.b64encode(random.Random(1).randbytes(3000)).decode()
    text = base64.b64encode(b"Once upon a time there was a text that nobody minds").decode()
    assert redactor().redact(f"data:image/png;base64,{image}") == f"data:image/png;base64,{image}"
    assert redactor().redact(text) == text


def test_secret_that_a_stream_tells_in_pieces() -> None:
    stream = "\n".join(
        f'data: {{"type":"delta","delta":"{ANTHROPIC[at : at + 17]}"}}'
        for at in range(0, len(ANTHROPIC), 17)
    )
    result = redactor().redact(stream)
    for at in range(0, len(ANTHROPIC) - 17, 17):
        assert ANTHROPIC[at : at + 17] not in result
    for line in result.split("\n"):
        json.loads(line.removeprefix("data: "))


def test_secret_in_a_list_of_pieces() -> None:
    result = redactor().redact(json.dumps(["key: ", GITHUB[:15], GITHUB[15:], " end"]))
    pieces = json.loads(result)
    assert pieces[0] == "key: " and pieces[3] == " end"
    assert GITHUB[15:] not in result and GITHUB[:15] not in result


def test_beginning_of_a_known_secret_is_known_where_a_title_was_cut() -> None:
    one = redactor()
    one.redact(ANTHROPIC)
    assert ANTHROPIC[:24] not in one.redact(f"use {ANTHROPIC[:40]}…")


# --------------------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    "value",
    [
        {"command": f"export GITHUB_TOKEN={GITHUB}"},
        {"password": PASSWORD},
        {"env": {"DB_PASSWORD": PASSWORD}},
        {GITHUB: 1},
        {"a": json.dumps({"b": json.dumps({"token": GITHUB})})},
        [GITHUB, [GITHUB]],
        {"text": f'say "{GITHUB}"\n\tthen \\ stop'},
        {"text": "C:\\Users\\ana\\x and /home/ana/y"},
        {"/home/ana/x": "é ü \u2028"},
        f"a string {GITHUB}",
    ],
    ids=range(10),
)
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_json_stays_json(value: Any, indent: int | None, ascii_only: bool) -> None:
    one = redactor(users=["ana"])
    result = one.redact(json.dumps(value, indent=indent, ensure_ascii=ascii_only))
    json.loads(result)
    for secret in (GITHUB, PASSWORD, "ana"):
        assert secret not in result
    assert one.redact(result) == result


def test_json_without_anything_in_it_keeps_its_layout_and_its_numbers() -> None:
    text = '{"a" :  1.50, "b":[ 12345678901234567890123 ],\t"c":"\\u00e9\\/"}'
    assert redactor().redact(text) == text


def test_numbers_survive_beside_a_secret() -> None:
    result = redactor().redact(f'{{"n": 12345678901234567890123, "t": "{GITHUB}"}}')
    assert json.loads(result)["n"] == 12345678901234567890123


def test_keys_that_become_equal_are_both_kept() -> None:
    result = json.loads(redactor(users=["ana"]).redact('{"ana": 1, "Ana": 2}'))
    assert sorted(result.values()) == [1, 2]


def test_deep_json() -> None:
    for depth in (50, 600, 5000):
        text = "[" * depth + f'"{GITHUB}"' + "]" * depth
        assert GITHUB not in redactor().redact(text)


# --------------------------------------------------------------------------- homes and names


@pytest.mark.parametrize(
    "path",
    [
        "/home/{}/shop/app.py",
        "/home/{}",
        "/Users/{}/Library",
        "/var/home/{}/x",
        r"C:\Users\{}\shop",
        r"c:\users\{}\shop",
        "C:/Users/{}/shop",
        "C:\\\\Users\\\\{}\\\\shop",
        r"\\?\C:\Users\{}\shop",
        "/c/Users/{}/shop",
        "/mnt/c/Users/{}/shop",
        "/cygdrive/c/Users/{}/shop",
        r"\\wsl$\Ubuntu\home\{}\shop",
        r"\\wsl.localhost\Ubuntu-24.04\home\{}\shop",
        "file:///home/{}/shop",
        "file:///C:/Users/{}/shop",
        "file:///c%3A/Users/{}/shop",
        "vscode-remote://wsl%2Bubuntu/home/{}/shop",
        "vscode-remote://ssh-remote+build/home/{}/shop",
        "%2Fhome%2F{}%2Fshop",
        "c%3A%5CUsers%5C{}%5Cshop",
        "%252Fhome%252F{}%252Fshop",
        r"\/home\/{}\/shop",
        "~/.claude/projects/-home-{}-shop",
        "-Users-{}-code-shop",
        "C--Users-{}-shop",
        "-mnt-c-Users-{}-shop",
        "see /home/{}.",
        "('/home/{}')",
        "\x1b[32m/home/{}\x1b[0m",
        "line\\n/home/{}/x",
    ],
)
def test_home_of_somebody_who_is_not_known(path: str) -> None:
    one = redactor()
    result = one.redact(path.format("kasimir"))
    assert "kasimir" not in result.lower()
    assert result == path.format("user-1").replace("+build", "+host-1")
    assert one.redact(result) == result


def test_windows_name_with_a_space() -> None:
    assert redactor().redact("C:\\Users\\Ana Maria\\x") == "C:\\Users\\user-1\\x"


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/home/index.html",
        "GET /api/users/17",
        "/users/5",
        "the /home directory",
        "/home/",
        "C:\\Users\\Public\\x",
        "a-home-made cake",
        "git@github.com:owner/shop.git",
        "Claude <noreply@anthropic.com>",
        "you@example.com",
        "logo@2x.png",
        "import x from '@types/node'",
        "a @ b.T",
        "pkg@1.2.3",
        "bananas, ladder: max(a, b)",
    ],
)
def test_what_is_nobodys_stays(text: str) -> None:
    assert redactor(users=["ana", "max", "root", "jo"]).redact(text) == text


def test_a_name_goes_where_it_stands_alone_but_not_inside_of_words() -> None:
    one = redactor(users=["ana"])
    assert one.redact("Ana, ana's banana; drwx ana staff") == (
        "user-1, user-1's banana; drwx user-1 staff"
    )
    assert one.redact(r"one\nana two") == r"one\nuser-1 two"
    assert one.redact("\x1b[01;32mana\x1b[0m") == "\x1b[01;32muser-1\x1b[0m"
    assert one.redact("feature/ana-login") == "feature/user-1-login"


def test_common_words_and_short_names_stay_but_not_in_paths() -> None:
    one = redactor(users=["root", "dev", "max", "jo"])
    assert one.redact("root dev max jo") == "root dev max jo"
    assert "max" not in one.redact("/home/max/x")


def test_user_whose_name_has_hyphens_and_dots_in_a_folder_name() -> None:
    one = redactor(users=["ana-maria.cruz"])
    assert one.redact("-home-ana-maria-cruz-shop") == "-home-user-1-shop"


def test_name_that_is_not_ascii_in_json_and_in_addresses() -> None:
    one = redactor(users=["jürgen"])
    assert one.redact('log: {"u": "j\\u00fcrgen"}') == 'log: {"u": "user-1"}'
    assert one.redact("/x/j%C3%BCrgen/y") == "/x/user-1/y"


def test_names_learned_from_the_environment_prompts_and_git() -> None:
    one = redactor()
    text = (
        "USER=tamsin\nHOSTNAME=brightwater\ntamsin@brightwater:~$ ls\nuid=1000(tamsin) gid=5\n"
        "Author: Tamsin Vale <tv@vale.dev>\nTamsin Vale fixed brightwater for tamsin"
    )
    result = one.redact(text)
    for name in ("tamsin", "brightwater", "vale"):
        assert name not in result.lower(), result
    assert one.redact(result) == result


def test_host_with_and_without_its_domain_is_one() -> None:
    one = redactor(hosts=["Anas-MacBook.local"])
    assert one.redact("Anas-MacBook.local anas-macbook") == "host-1 host-1"


def test_addresses() -> None:
    one = redactor()
    assert one.redact("ana@corp.com, ANA@corp.com, bo@corp.com") == (
        "email-1@redacted.invalid, email-1@redacted.invalid, email-2@redacted.invalid"
    )
    assert one.redact("?to=ana%40corp.com") == "?to=email-1%40redacted.invalid"
    assert "ana" not in one.redact("1234+ana@users.noreply.github.com")
    assert one.redact("ssh deploy@build7") == "ssh deploy@host-1"


def test_own_words_inside_of_words_in_any_case() -> None:
    one = redactor(words=["Acme Corp", "zeppelin"])
    assert one.redact("ACME CORP's ZeppelinClient acme%20corp") == (
        "redacted-1's redacted-2Client redacted-1"
    )


def test_names_to_keep() -> None:
    one = redactor(users=["ana"], keep=["ana", "me@corp.com"])
    text = "/home/ana/x me@corp.com ana"
    assert one.redact(text) == text


def test_users_in_a_path() -> None:
    assert users_in("/home/ana/shop") == ["ana"]
    assert users_in("C:\\Users\\Ana Maria\\shop") == ["Ana Maria"]
    assert users_in("/srv/shop") == []


def test_counts_say_where_and_what_but_no_value() -> None:
    one = redactor()
    one.redact(f"/home/ana/x /home/ana/y {GITHUB}", "messages.content")
    assert one.counts["messages.content", "home-path"] == 2
    assert sum(one.counts.values()) == 3
    assert GITHUB not in repr(one.counts) and "'ana'" not in repr(one.counts)


def test_a_text_read_earlier_gets_what_was_learned_later() -> None:
    one = redactor()
    early = one.redact("tamsin says hello")
    assert early == "tamsin says hello"
    one.redact("USER=tamsin")
    assert one.again(early) == "user-1 says hello"


# --------------------------------------------------------------------------- any text

PIECES = st.sampled_from(
    [
        GITHUB,
        GITHUB[:20],
        f"password={PASSWORD}",
        f'{{"token": "{GITHUB}"}}',
        "/home/ana/",
        "/home/",
        "C:\\Users\\bo\\",
        "-home-ana-",
        "ana@corp.com",
        "ana@host:~$ ",
        "USER=carla ",
        "carla",
        "[secret:github-token:123456789012]",
        "user-1",
        "email-1@redacted.invalid",
        "\\n",
        "\\",
        '"',
        "{",
        "}",
        "[",
        "]",
        "%2F",
        " ",
        "\n",
        "@",
        "\x00",
        "\ud800",
        "İ",
        "é",
        "Acme",
        base64.b64encode(f"TOKEN={GITHUB} and more".encode()).decode(),
    ]
)
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=12).map("".join))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=6,
)


@settings(max_examples=120, deadline=None)
@given(TEXTS)
def test_redacting_twice_is_redacting_once(text: str) -> None:
    one = redactor(users=["ana"], words=["Acme"])
    result = one.redact(text)
    assert one.redact(result) == result
    assert "acme" not in result.lower()


@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES.filter(lambda piece: "secret:" not in piece), max_size=10))
def test_no_secret_stays_whatever_stands_around_it(pieces: list[str]) -> None:
    text = " \n".join([*pieces, GITHUB, *pieces])
    assert GITHUB not in redactor(users=["ana"], words=["Acme"]).redact(text)


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_any_json_stays_json(value: Any) -> None:
    one = redactor(users=["ana"], words=["Acme"])
    text = json.dumps(value)
    result = one.redact(text)
    json.loads(result)
    assert one.redact(result) == result


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "@",
        "/",
        "\\",
        "/home/",
        "-home-",
        "a@",
        "a.",
        "@a.",
        "%2F",
        "%25",
        "A",
        "[",
        '{"',
        "C:\\Users\\a ",
        "=",
        "USER=",
        "ssh ",
    ],
)
def test_time_grows_with_the_length_of_a_text(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        best = 1e9
        for _ in range(2):
            one = redactor(rules=(), users=["ana"])
            start = time.process_time()
            one.redact(text)
            best = min(best, time.process_time() - start)
        return best

    small, large = seconds(20_000), seconds(160_000)
    # eight times the text: a quadratic pattern takes 64 times as long
    assert large < 24 * small + 0.2


def test_is_placeholder() -> None:
    assert is_placeholder("[secret:jwt:123456789012]")
    assert is_placeholder('"user-3"')
    assert not is_placeholder(GITHUB)
    assert not is_placeholder(f"user-1:{GITHUB}")


def test_secret_with_half_a_character() -> None:
    """JSON of some tools holds lone surrogates."""
    result = redactor().redact(f"password={PASSWORD}\ud800")
    assert PASSWORD not in result


def test_value_to_keep_stays_and_others_do_not() -> None:
    other = token("gh" + "p_", 36, seed=2)
    result = redactor(keep=(GITHUB,)).redact(f"{GITHUB} and {other}")
    assert result.startswith(f"{GITHUB} and [secret:")


def test_state_of_one_redactor_makes_another_know_the_same() -> None:
    one, other = redactor(), redactor()
    one.redact(f"USER=tamsin DB_PASSWORD={PASSWORD} mail w.okonkwo@corp-mail.dev")
    other.restore(one.state())
    text = f"tamsin, w.okonkwo@corp-mail.dev, {PASSWORD}, new@corp-mail.dev"
    assert other.again(text) == one.again(text)
    assert "tamsin" not in other.again(text) and PASSWORD not in other.again(text)
