"""Secrets leave no summary; ordinary text stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.core.text.redaction import MASK, redact
from tenfold.core.text.secret_labels import ASSIGNMENT, LABELLED_VALUE

BODY = "Zx9Qw7Er5Ty3Ui1Op0As8Df6Gh4Jk2Lz"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"key sk-{BODY} here", BODY),
        (f"sk-ant-api03-{BODY}", BODY),
        (f"pk-lf-{BODY} rk-live-{BODY}", BODY),
        (f"ghp_{BODY}0000", BODY),
        (f"github_pat_{BODY}", BODY),
        (f"glpat-{BODY}", BODY),
        (f"xoxb-1234567890-{BODY}", BODY),
        ("AKIAABCDEFGHIJKLMNOP", "ABCDEFGHIJKLMNOP"),
        (f"AIza{BODY}abc", BODY),
        (f"eyJhbGciOiJI.eyJzdWIiOiIx.{BODY}", BODY),
        (f"Authorization: Bearer {BODY}", BODY),
        (f"authorization: basic {BODY}", BODY),
        (f"API_KEY={BODY}", BODY),
        (f'"client_secret": "{BODY}"', BODY),
        ("password: hunter2xy", "hunter2xy"),
        ("DB_PASSWORD=correcthorse", "correcthorse"),
        ("postgres://admin:pa55word@db.local/x", "pa55word"),
        (f"authorization: token {BODY}", BODY),
        ("'Authorization': 'ApiKey a1b2c3d4e5f6'", "a1b2c3d4e5f6"),
        (f"AccountKey={BODY}==", BODY),
        ("signing_key: 9f8e7d6c5b4a", "9f8e7d6c5b4a"),
        (f"https://hooks.slack.com/services/T01234567/B01234567/{BODY[:24]}", BODY[:24]),
        (f"ya29.{BODY}", BODY),
        (r'{"command": "curl -d \'{\"password\": \"hunter2xy\"}\' https://db.local"}', "hunter2xy"),
        (r'{"command": "deploy --token \"a1b2c3d4e5\""}', "a1b2c3d4e5"),
        (r'{"command": "curl -H \"Authorization: Digest a1b2c3d4e5\""}', "a1b2c3d4e5"),
        (r'{"command": "export API_KEY=\"a1b2c3d4e5\""}', "a1b2c3d4e5"),
        (f"deploy --token {BODY} --region north", BODY),
        ("mysql --host db --password 'hunter2xy' shop", "hunter2xy"),
        ("tool --admin-password correcthorsebattery", "correcthorsebattery"),
        ("tool --API-KEY a1b2c3d4", "a1b2c3d4"),
        ("curl -u admin:pa55word https://db.local/x", "pa55word"),
        ("export DB_PASSWORD=S3cr.et9xQ7", "S3cr.et9xQ7"),
        ("DB_PASSWORD='S3cr(et9xQ7' ./run.sh", "S3cr(et9xQ7"),
        ("psql postgres://admin:p@ss9word1x@db.local/x", "ss9word1x"),
        ('PASSPHRASE="correct9 horse8x battery7y" ./run.sh', "horse8x"),
        ("mysql -uroot -pTr0ub4dor9x3 shop", "Tr0ub4dor9x3"),
        ("mysqldump --host db -p'Tr0ub4dor9x3' shop", "Tr0ub4dor9x3"),
        (f"gsk_{BODY}", BODY),
        (f'{{"name": "STRIPE_KEY", "value": "{BODY}"}}', BODY),
        (f"xai-{BODY}", BODY),
        (f"shpat_{BODY}", BODY),
        ("curl --user=admin:pa55word https://db.local/x", "pa55word"),
        (f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n{BODY}\n-----END RSA PRIVATE KEY-----", BODY),
        (f"-----BEGIN PRIVATE KEY-----\n{BODY}", BODY),
    ],
)
def test_a_secret_goes(text: str, secret: str) -> None:
    shown = redact(text)
    assert secret not in shown
    assert MASK in shown


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 4096",
        "the token count is 12000",
        "const token = getToken();",
        "token: string",
        "password: settings.password",
        "secret = os.environ.get('SECRET')",
        "token: ./secrets/token.yaml",
        "credentials=~/.aws/credentials",
        "token: expired.",
        "secret: 10.0.0.12",
        "const secret = process.env.API_SECRET;",
        "mkdir -p/var/lib/mysql",
        "a tag in postgres://db.local/x and a mail to me@db.local",
        "see the secretary: tomorrow",
        "commit 3f2a9bc0d1e2f3a4b5c6d7e8f9a0b1c2d3e4f5a6",
        "https://example.com/a:b@c",
        "src/keys/token.py:12",
        "the --password option is required, --token takes a string",
        "docker login --password-stdin registry.local",
        "run --token --verbose-logs",
        "docker run -u 1000:1000 image:v1.2.3",
        "git log --author-key 12345",
        "--key src/main.py",
        "Authorization: required for every call",
        "authorization: see docs/auth.md",
        "primary key: order_id",
        "skill-based and risk-averse planning-of-the-next-steps",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


@given(st.text())
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    assert redact(redact(text)) == redact(text)


_LETTERS = "\u017f\u212a\u0130\u0131\u00df"  # a long s, a kelvin sign, dotted and dotless i: they match s, k and i
_PIECES = (
    "api_key",
    "KEY",
    "to\u212aen",
    "pa\u017fswd",
    "credent\u0131als",
    "CREDENT\u0130AL",
    "Secret",
    "pwd",
    "pass",
)


@given(
    st.lists(st.sampled_from((*_PIECES, "=", ":", " ", "\n", '"', "'", ";", "hunter2", "[", "]")) | st.text(_LETTERS))
)
def test_what_is_looked_for_first_stands_wherever_a_labelled_value_does(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert not LABELLED_VALUE.search(text) or ASSIGNMENT.search(text.casefold())


@pytest.mark.parametrize("label", ["password", "pa\u017fsword", "api_\u212aey"])
def test_a_label_in_other_letters_is_a_label(label: str) -> None:
    assert redact(f"the {label}: x1y2z3w4 of it") == f"the {label}: {MASK} of it"
