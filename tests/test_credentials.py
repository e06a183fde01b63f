"""Credentials are found wherever they hide, look-alikes are not, and redaction leaves nothing."""

from __future__ import annotations

import base64
import json
import re
import string
import time
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from toolscore_pipeline import credentials
from toolscore_pipeline.credentials import (
    credential_kinds,
    find_credentials,
    prefilter_sql,
    redact_secrets,
    redact_value,
)
from toolscore_pipeline.udfs.credentials import credentials_json, register

ROOT = Path(__file__).parent.parent
CORPUS = Path(__file__).parent / "corpus" / "credentials"
SHARED = ROOT.parent / "shared"
TOKENS: dict[str, list[str]] = {
    kind: [token.replace("~", "") for token in tokens]
    for kind, tokens in yaml.safe_load((CORPUS / "tokens.yaml").read_text("utf-8")).items()
}
LOOKALIKES: dict[str, list[str]] = {
    group: [re.sub("~(~?)", r"\1", text) for text in texts]
    for group, texts in yaml.safe_load((CORPUS / "lookalikes.yaml").read_text("utf-8")).items()
}
PLACES: list[dict[str, Any]] = yaml.safe_load((CORPUS / "places.yaml").read_text("utf-8"))
PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\n"
NAMES = {
    "github": TOKENS["github_token"][0],
    "openai": TOKENS["openai_api_key"][0],
    "anthropic": TOKENS["anthropic_api_key"][0],
    "aws": TOKENS["aws_access_key_id"][0],
    "google": TOKENS["google_api_key"][0],
    "slack": TOKENS["slack_token"][0],
    "stripe": TOKENS["stripe_secret_key"][0],
    "example": "AKIA" + "IOSFODNN7EXAMPLE",
    "pem64": base64.b64encode(f"{PEM}MIIEowIBAAKCAQEA".encode()).decode(),
}
GITHUB, AWS, GOOGLE = NAMES["github"], NAMES["aws"], NAMES["google"]


# --- the ways to write a token -------------------------------------------------------------------


def escape_all(token: str, form: str) -> str:
    """Each letter, digit, - and _ of a token as an escape; the rest as it is."""
    return "".join(
        form.format(ord(char)) if char.isalnum() or char in "-_" else char for char in token
    )


def bold(token: str) -> str:
    """Mathematical bold letters and digits."""
    alphabet = string.ascii_uppercase + string.ascii_lowercase
    table = {ord(char): 0x1D400 + index for index, char in enumerate(alphabet)}
    table |= {ord(char): 0x1D7CE + index for index, char in enumerate(string.digits)}
    return token.translate(table)


def split_with(token: str, separator: str, every: int) -> str:
    return separator.join(token[at : at + every] for at in range(0, len(token), every))


WRITTEN: dict[str, Callable[[str], str]] = {
    "alone": lambda token: token,
    "in a sentence": lambda token: f"Please use {token}, it works.",
    "after a literal newline": lambda token: f"first line\\n{token}\\nlast line",
    "after a literal tab": lambda token: f"name\\t{token}",
    "after a colour code": lambda token: f"\x1b[1;32m{token}\x1b[0m",
    "in quotes": lambda token: f'"{token}"',
    "in a shell command": lambda token: f"KEY='{token}' ./deploy.sh",
    "in a query string": lambda token: f"https://example.com/?key={token}&x=1",
    "after a percent-encoded equals sign": lambda token: f"next=%2Fa%3Fkey%3D{token}%26x",
    "percent-encoded whole": lambda token: escape_all(token, "%{:02X}"),
    "in JSON text": lambda token: json.dumps({"a": [token]}),
    "in JSON in JSON": lambda token: json.dumps({"a": json.dumps({"b": token})}),
    "in broken JSON": lambda token: f'{{"a": "{token}", ',
    "with one \\u escape": lambda token: f"\\u{ord(token[0]):04x}{token[1:]}",
    "in \\u escapes": lambda token: escape_all(token, "\\u{:04x}"),
    "in \\u escapes, upper case": lambda token: escape_all(token, "\\u{:04X}"),
    "in \\u escapes, twice": lambda token: escape_all(token, "\\\\u{:04x}"),
    "in \\x escapes": lambda token: escape_all(token, "\\x{:02x}"),
    "in decimal entities": lambda token: escape_all(token, "&#{};"),
    "in hexadecimal entities": lambda token: escape_all(token, "&#x{:x};"),
    "fullwidth": lambda token: "".join(
        chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in token
    ),
    "fullwidth, in \\u escapes": lambda token: "".join(
        f"\\u{ord(char) + 0xFEE0:04x}" if char.isalnum() else char for char in token
    ),
    "in bold letters": bold,
    "bold, in surrogate pairs": lambda token: json.dumps(bold(token))[1:-1],
    "with one fullwidth letter": lambda token: token[:7] + chr(ord(token[7]) + 0xFEE0) + token[8:],
    "with zero-width spaces": lambda token: split_with(token, "\u200b", 5),
    "with a zero-width space everywhere": lambda token: split_with(token, "\u200b", 1),
    "with soft hyphens": lambda token: split_with(token, "\u00ad", 8),
    "with variation selectors": lambda token: split_with(token, "\ufe0f", 9),
    "with Hangul fillers": lambda token: split_with(token, "\u3164", 9),
    "with tag characters": lambda token: split_with(token, "\U000e0041", 6),
    "with a joiner, escaped": lambda token: split_with(token, "\\u200d", 6),
    "after a word and a zero-width space": lambda token: f"word\u200b{token[:9]}\u200b{token[9:]}",
}
ENCODED: dict[str, Callable[[str], str]] = {
    "in base64": lambda token: base64.b64encode(token.encode()).decode(),
    "in base64 after one byte": lambda token: base64.b64encode(f":{token}".encode()).decode(),
    "in basic authentication": lambda token: (
        "Basic " + base64.b64encode(f"me:{token}".encode()).decode()
    ),
}
IN_TOKENS = [
    pytest.param(kind, token, id=f"{kind}-{number}")
    for kind, tokens in TOKENS.items()
    for number, token in enumerate(tokens)
]


def write_all(kind: str, token: str) -> Iterator[tuple[str, str]]:
    """A token in every way to write it."""
    for name, write in {**WRITTEN, **ENCODED}.items():
        if name == "percent-encoded whole" and "%" in token:
            continue  # a percent sign that is not encoded itself ends the token
        yield name, write(token)


@pytest.mark.parametrize(("kind", "token"), IN_TOKENS)
def test_every_token_is_found_once_in_every_way_to_write_it(kind: str, token: str) -> None:
    wrong = {}
    for name, text in write_all(kind, token):
        found = find_credentials({"a": {"b": text}})
        if [(finding.path, finding.kind) for finding in found] != [("a.b", kind)]:
            wrong[name] = found
    assert not wrong


@pytest.mark.parametrize(("kind", "token"), IN_TOKENS)
def test_every_token_is_found_once_as_a_key_in_every_way_to_write_it(kind: str, token: str) -> None:
    wrong = {}
    for name, text in write_all(kind, token):
        found = find_credentials({"a": {text: 1}})
        if [(finding.path, finding.kind, finding.in_key) for finding in found] != [
            ("a", kind, True)
        ]:
            wrong[name] = found
    assert not wrong


@pytest.mark.parametrize(("kind", "token"), IN_TOKENS)
def test_no_token_survives_redaction(kind: str, token: str) -> None:
    for name, text in write_all(kind, token):
        redacted = redact_secrets(text)
        assert f"[REDACTED {kind}: " in redacted, name
        assert not find_credentials(redacted), name
        assert token not in redacted, name


def test_the_corpus_covers_every_kind_with_several_tokens_and_many_strings() -> None:
    assert set(TOKENS) == set(credential_kinds())
    assert min(map(len, TOKENS.values())) >= 4
    assert sum(len(tokens) for tokens in TOKENS.values()) * len(WRITTEN) >= 300
    assert sum(map(len, LOOKALIKES.values())) >= 120


@pytest.mark.parametrize("group", LOOKALIKES)
def test_look_alikes_are_not_reported(group: str) -> None:
    reported = {
        text: found
        for text in LOOKALIKES[group]
        for dressed in (text, f"see {text} there", json.dumps({"a": text}), f"a\\n{text}")
        if (found := find_credentials({"a": dressed, dressed: 1}, json.dumps({"a": dressed})))
    }
    assert not reported


def test_look_alikes_in_base64_are_not_reported() -> None:
    for text in LOOKALIKES["placeholders"] + LOOKALIKES["slugs"]:
        assert not find_credentials(base64.b64encode(text.encode()).decode()), text


def fill(value: Any) -> Any:
    """A case's arguments with the tokens put in."""
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda match: NAMES.get(match[1], match[0]), value)
    if isinstance(value, dict):
        return {fill(key): fill(item) for key, item in value.items()}
    return [fill(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", PLACES, ids=[str(case["args"])[:60] for case in PLACES])
def test_findings_name_the_place(case: dict[str, Any]) -> None:
    usual = {"is_example": False, "in_key": False, "inner_path": None, "truncated": False}
    found = [
        finding.to_dict() for finding in find_credentials(fill(case["args"]), fill(case.get("raw")))
    ]
    for finding in found:
        assert finding.pop("preview")
    assert found == [usual | expected for expected in case["find"]]


# --- previews ------------------------------------------------------------------------------------


def test_a_preview_is_the_first_four_and_the_last_two_characters() -> None:
    (finding,) = find_credentials({"id": AWS})
    assert finding.preview == f"{AWS[:4]}…{AWS[-2:]}"


def test_the_preview_of_a_disguised_token_is_plain() -> None:
    fullwidth = "".join(chr(ord(char) + 0xFEE0) for char in AWS)
    (finding,) = find_credentials({"id": split_with(fullwidth, "\u200b", 2)})
    assert finding.preview == f"{AWS[:4]}…{AWS[-2:]}"


def test_the_preview_of_a_private_key_shows_nothing_of_it() -> None:
    (finding,) = find_credentials({"key": PEM + "MIIEowIBAAKCAQEA"})
    assert finding.preview == "-----BEGIN … PRIVATE KEY-----"


def test_a_path_through_a_key_that_is_a_credential_does_not_show_it() -> None:
    key, value = find_credentials({GITHUB: {"x": AWS}})
    assert key.in_key
    assert key.path == ""
    assert GITHUB not in value.path
    assert value.path.endswith("].x")


# --- limits --------------------------------------------------------------------------------------


def test_text_beyond_the_limit_is_reported_as_not_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "MAX_CHARACTERS", 100)
    first, last = find_credentials({"a": AWS + " " * 100 + GITHUB})
    assert (first.kind, first.truncated) == ("aws_access_key_id", False)
    assert (last.kind, last.truncated, last.path) == ("truncated", True, "a")


def test_text_within_the_limit_is_scanned_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "MAX_CHARACTERS", 101 + len(AWS))  # 1 for the key
    (finding,) = find_credentials({"a": " " * 100 + AWS})
    assert not finding.truncated


def test_a_list_of_findings_that_is_cut_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "MAX_FINDINGS", 3)
    found = find_credentials([AWS] * 5)
    assert [finding.truncated for finding in found] == [False, False, False, True]


def test_json_nested_too_deep_says_so() -> None:
    text = AWS
    for _ in range(18):  # doubles its escapes at every level, so use the shortest form
        text = json.dumps(text) if len(text) < 1 << 20 else text
    found = find_credentials({"a": text})
    assert found[0].kind == "aws_access_key_id"
    assert found[-1].truncated


def test_deep_containers_are_walked_without_recursion() -> None:
    value: Any = AWS
    for _ in range(50_000):
        value = [value]
    assert [finding.kind for finding in find_credentials(value)] == ["aws_access_key_id"]


UNITS = {
    "beginnings": "sk-", "longer beginnings": "sk-ant-", "inside words": "task-", "ghp_": "ghp_",
    "AKIA": "AKIA", "BEGIN": "-----BEGIN ", "private keys": "-----BEGIN RSA PRIVATE KEY",
    "data URIs": "data:;", "data bodies": "data:;base64,", "Slack": "xoxb-%2B", "JWT": "ghs_1_eyJ",
    "escapes": "\\u0073k-", "backslashes": "\\", "escape beginnings": "\\\\u",
    "zero width": "sk\u200b-\u200b", "gaps": "a\u200bsk-", "fullwidth": "ｓｋ－",
    "ligatures": "ﬁsk-", "base64": "c2st", "objects": '{"sk-":', "arrays": '["sk-",',
    "quotes": '"\\"sk-', "percents": "%73k-",
    "entities": "&#115;k-", "almost random": "sk-aB3dE5gH7jK9mN1pQ",
    "keys": f"{AWS} ",
}  # fmt: skip


@pytest.mark.parametrize("name", UNITS)
def test_adversarial_text_takes_time_in_proportion_to_its_size(name: str) -> None:
    # The best of two at each size; 4 times the text may take 4 times as long, and not 16 times.
    # Below a millisecond per size nothing can be told, so that is added to both.
    unit = UNITS[name]

    def seconds(size: int) -> float:
        text = (unit * (size // len(unit) + 1))[:size]
        best = float("inf")
        for _ in range(2):
            started = time.process_time()
            find_credentials({"a": text})
            redact_secrets(text)
            best = min(best, time.process_time() - started)
        return best

    seconds(1_000)
    small, large = seconds(50_000), seconds(200_000)
    assert large + 0.001 < 10 * (small + 0.001)


# --- redaction -----------------------------------------------------------------------------------


def test_redaction_keeps_the_text_around() -> None:
    text = f"use {GITHUB}, then \\n{AWS}."
    assert redact_secrets(text) == (
        f"use [REDACTED github_token: ghp_…{GITHUB[-2:]}], "
        f"then \\n[REDACTED aws_access_key_id: {AWS[:4]}…{AWS[-2:]}]."
    )


def test_redaction_of_clean_text_is_the_same_object() -> None:
    text = "nothing to see in this text"
    assert redact_secrets(text) is text


def test_a_private_key_is_redacted_to_its_end() -> None:
    body = "MIIEowIBAAKCAQEAx+4\nZm9v/YmFy==\n"
    text = f"a {PEM}{body}-----END RSA PRIVATE KEY----- b"
    assert redact_secrets(text) == ("a [REDACTED private_key: -----BEGIN … PRIVATE KEY-----] b")


def test_a_private_key_without_an_end_is_redacted_with_its_body() -> None:
    redacted = redact_secrets(f"{PEM}MIIEowIBAAKCAQEAx+4\nZm9v\\nYmFy== : rest")
    assert redacted == "[REDACTED private_key: -----BEGIN … PRIVATE KEY-----]: rest"


def test_two_private_keys_are_redacted_one_by_one() -> None:
    one = f"{PEM}MIIE\n-----END RSA PRIVATE KEY-----"
    assert redact_secrets(f"{one} between {one}").count(" between ") == 1


def test_values_are_redacted_at_any_depth_and_in_keys() -> None:
    value = {"a": [GITHUB, {"b": (AWS, 1)}], AWS: None, "n": 1.5}
    redacted = redact_value(value)
    text = repr(redacted)
    assert GITHUB not in text
    assert AWS not in text
    assert redacted["n"] == 1.5
    assert isinstance(redacted["a"][1]["b"], tuple)
    assert value["a"][0] == GITHUB  # type: ignore[index]


def test_keys_that_become_equal_are_both_kept() -> None:
    other = AWS[:4] + "Q" + AWS[5:]
    redacted = redact_value({AWS: 1, other: 2})
    assert list(redacted.values()) == [1, 2]


def test_bytes_that_hold_a_credential_become_redacted_text() -> None:
    assert redact_value(AWS.encode()).startswith("[REDACTED aws_access_key_id")
    assert redact_value(b"plain") == b"plain"


# --- SQL -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute((ROOT / "sql" / "macros" / "credentials.sql").read_text("utf-8"))
        register(connection)
        yield connection


def passes(database: duckdb.DuckDBPyConnection, texts: list[str]) -> list[bool]:
    """Which texts the macro lets through."""
    rows = database.execute(
        "select may_hold_credential(text) from (select unnest($1) as text)", [texts]
    ).fetchall()
    return [row[0] for row in rows]


def test_the_macro_file_is_the_one_the_data_file_makes() -> None:
    assert (ROOT / "sql" / "macros" / "credentials.sql").read_text("utf-8") == prefilter_sql()


@pytest.mark.parametrize("ensure_ascii", [False, True])
def test_the_macro_lets_every_text_through_that_holds_a_credential(
    database: duckdb.DuckDBPyConnection, ensure_ascii: bool
) -> None:
    texts = [
        json.dumps({"a": text}, ensure_ascii=ensure_ascii)
        for kind, tokens in TOKENS.items()
        for token in tokens
        for _, text in write_all(kind, token)
    ]
    texts += [json.dumps(fill(case["args"]), ensure_ascii=ensure_ascii) for case in PLACES]
    missed = [
        text
        for text, passed in zip(texts, passes(database, texts), strict=True)
        if not passed and find_credentials(json.loads(text))
    ]
    assert not missed


def test_the_macro_lets_any_single_look_alike_in_a_token_through(
    database: duckdb.DuckDBPyConnection,
) -> None:
    # Every code point whose plain form is one character of a token, at both ends and in the middle.
    plain = set(string.ascii_letters + string.digits + "-_")
    alike = [
        (chr(code), form)
        for code in range(0x80, 0x20000)
        if (form := unicodedata.normalize("NFKC", chr(code))) in plain and form.isalnum()
    ]
    assert len(alike) > 900
    texts = [f"ghp_{char}{GITHUB[5:]}" for char, _ in alike]
    texts += [f"{GITHUB[:20]}{char}{GITHUB[21:]}" for char, _ in alike]
    texts += [f"{GITHUB[:-1]}{char}" for char, _ in alike]
    texts += [f"sk-{char * 30}" for char, _ in alike]
    assert all(passes(database, texts))
    assert all(find_credentials(text) for text in texts[: 3 * len(alike)])


def test_the_macro_lets_any_invisible_character_in_a_token_through(
    database: duckdb.DuckDBPyConnection,
) -> None:
    invisible = [
        chr(code) for code in range(0x80, 0xE1000) if unicodedata.category(chr(code)) == "Cf"
    ]
    invisible += [chr(code) for code in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))]
    invisible += ["\u034f", "\u115f", "\u1160", "\u17b4", "\u17b5", "\u180b", "\u3164", "\uffa0"]
    texts = [f"{AWS[:2]}{char}{AWS[2:]}" for char in invisible]
    texts += [json.dumps(text) for text in texts]
    assert all(passes(database, texts))
    assert all(find_credentials(text) for text in texts)


ORDINARY = [
    "search for flights from Berlin to New York on 2024-12-24, window seat if possible",
    "https://example.com/articles/2024/11/how-to-bake-bread?utm_source=newsletter&id=8123#comments",
    "/home/user/projects/task-manager/src/components/TaskList.tsx",
    "SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer WHERE o.total > 100",
    "def main() -> None:\n    print('hello')\n\n\nif __name__ == '__main__':\n    main()\n",
    "Die Größe der Wohnung beträgt 85 m² – Miete 1.200 € (kalt)",
    "Il a dit : « Ça va ? » — l’été dernier…",
    "東京の天気を教えてください。ＡＰＩは不要です。",
    "Merci ❤️ 👍🏽 👩‍👩‍👧‍👦 🇩🇪",
    "550e8400-e29b-41d4-a716-446655440000",
    "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "risk-assessment-for-the-desk-and-disk-replacement-2024",
    "npm install --save-dev @types/node@20 typescript@5.6 && npm test",
]


def test_the_macro_holds_ordinary_arguments_back(database: duckdb.DuckDBPyConnection) -> None:
    texts = [json.dumps({"text": text, "n": 1}, ensure_ascii=False) for text in ORDINARY]
    assert [
        text for text, passed in zip(texts, passes(database, texts), strict=True) if passed
    ] == []


def test_the_macro_holds_back_98_of_100_recorded_argument_texts(
    database: duckdb.DuckDBPyConnection,
) -> None:
    path = SHARED / "data" / "mcp-memory-runs.json"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    texts: list[str] = []

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            texts.extend(json.dumps(value[key]) for key in ("args", "arguments") if key in value)
            for item in value.values():
                collect(item)
        elif isinstance(value, list):
            for item in value:
                collect(item)

    collect(json.loads(path.read_text("utf-8")))
    texts = sorted(set(texts))
    assert len(texts) > 20
    assert sum(passes(database, texts)) < 0.02 * len(texts)


def test_the_function_gives_the_findings_as_json(database: duckdb.DuckDBPyConnection) -> None:
    rows = database.execute(
        "select credentials(a, r) from (select unnest($1) as a, unnest($2) as r)",
        [
            [json.dumps({"a": {"b": AWS}}), '{"a": 1}', None, "{broken " + AWS, None],
            [None, None, f'{{"x": "{GOOGLE}"', None, None],
        ],
    ).fetchall()
    found = [json.loads(row[0]) for row in rows]
    assert [len(item) for item in found] == [1, 0, 1, 1, 0]
    assert found[0][0] == {
        "path": "a.b",
        "kind": "aws_access_key_id",
        "preview": f"{AWS[:4]}…{AWS[-2:]}",
        "is_example": False,
        "in_key": False,
        "inner_path": None,
        "truncated": False,
    }
    assert rows[1][0] == "[]"


def test_the_function_calls_nothing_clean_that_it_could_not_scan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("toolscore_pipeline.udfs.credentials.find_credentials", broken)
    assert json.loads(credentials_json("{}", None))[0]["truncated"] is True


# --- the shared example --------------------------------------------------------------------------


def test_the_guardrails_example_holds_one_credential() -> None:
    path = SHARED / "data" / "toolscore-examples" / "guardrails" / "trace.json"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    calls = json.loads(path.read_text("utf-8"))
    found = [
        (index, finding.path, finding.kind, finding.preview, finding.is_example)
        for index, call in enumerate(calls)
        for finding in find_credentials(call.get("args"))
    ]
    assert found == [(2, "body.text", "aws_access_key_id", "AKIA…LE", True)]


def test_percent_encoding_of_a_url_keeps_its_tokens_findable() -> None:
    text = urllib.parse.quote(f"https://example.com/?key={GOOGLE}", safe="")
    assert [finding.kind for finding in find_credentials({"url": text})] == ["google_api_key"]
