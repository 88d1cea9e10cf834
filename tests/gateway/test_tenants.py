"""Who sends a request: every header, cookie and query parameter that says so keeps users apart, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from tenfold.apps.gateway.incoming_request import join_headers
from tenfold.apps.gateway.tenants import digest_credentials, is_credential, keep_credentials
from tenfold.store.base import Store
from tests.gateway.conversations import PATHS, Talk, list_sessions
from tests.gateway.serving import run_gateway

BASE = {"authorization": "Bearer sk-shared", "user-agent": "agent/1.0", "content-type": "application/json"}
CREDENTIAL_HEADERS = (
    "authorization", "proxy-authorization", "x-api-key", "x-goog-api-key", "api-key", "x-litellm-api-key",
    "ocp-apim-subscription-key", "x-portkey-api-key", "x-portkey-virtual-key", "helicone-auth", "cf-aig-authorization",
    "x-auth-token", "x-access-token", "x-session-token", "x-amz-security-token", "x-functions-key", "private-token",
    "x-client-secret", "cf-access-client-secret", "cf-access-jwt-assertion", "x-amzn-oidc-data", "x-user-jwt",
    "x-password", "x-signature", "x-forwarded-access-token", "x-auth-request-user", "x-auth-request-email",
    "x-rapidapi-key", "xi-api-key", "x_api_key", "apikey", "x-client-cert", "x-forwarded-client-cert",
    "x-app-credentials",
    "openai-organization", "openai-project", "chatgpt-account-id", "x-openwebui-user-id", "x-openwebui-user-email",
    "helicone-user-id", "x-litellm-end-user-id", "x-forwarded-user", "remote-user", "x-tenant-id",
    "x-goog-user-project",
    "x-bf-vk", "x-consumer-id", "cf-access-client-id", "x-client-id", "x-caller-id", "x-authentik-uid", "x-login",
    "x-creds", "x-pat", "x-passcode", "x-macaroon", "ssl-client-s-dn", "x-on-behalf-of", "x-useremail", "from",
    "x-patient-id", "x-subscription-id", "x-ms-client-principal-id", "x-kong-consumer-username", "x-userinfo",
)  # fmt: skip
QUERY_NAMES = (
    "key", "api_key", "api-key", "apiKey", "access_token", "accessToken", "token", "subscription-key", "sig", "code",
    "jwt", "auth", "password", "X-Amz-Security-Token", "clientSecret", "client_id", "appid", "uid", "login", "pat",
)  # fmt: skip
CHANGING_HEADERS = (
    "x-request-id", "x-client-request-id", "x-amzn-trace-id", "traceparent", "tracestate", "sentry-trace", "baggage",
    "x-correlation-id", "x-stainless-retry-count", "x-stainless-read-timeout", "idempotency-key", "x-idempotency-key",
    "x-request-key", "x-request-token", "x-csrf-token", "x-codex-turn-metadata", "x-codex-window-id", "date",
    "x-amz-date", "x-amz-signature", "x-auth-timestamp", "x-auth-nonce", "x-auth-request-id", "x-user-prompt-id",
    "sec-websocket-key", "content-length", "x-forwarded-for", "user-agent", "x-user-agent", "x-portkey-trace-id",
    "x-portkey-metadata", "x-b3-spanid", "x-cache-key", "x-token-count", "x-span-id", "content-md5", "if-none-match",
    "anthropic-beta", "x-tenfold-session", "x-tenfold-key", "session-id", "x-session-id", "x-author", "x-retry-token",
    "x-dedup-key", "x-unique-key", "x-call-key", "x-step-token", "x-sequence-token", "x-continuation-token",
    "x-recaptcha-token", "cf-turnstile-token", "openai-sentinel-proof-token", "x-random-token", "x-token-usage",
    "x-generation-key", "x-client-transaction-id", "x-app-name", "x-client-name", "x-client-version",
)  # fmt: skip


@pytest.mark.parametrize("name", CREDENTIAL_HEADERS)
def test_a_header_that_says_who_sends_the_request_tells_tenants_apart(name: str) -> None:
    one, two = ({**BASE, name: value} for value in ("one", "two"))
    assert digest_credentials(one) != digest_credentials(two)


@pytest.mark.parametrize("name", QUERY_NAMES)
def test_a_query_parameter_that_says_who_sends_the_request_tells_tenants_apart(name: str) -> None:
    assert digest_credentials(BASE, f"alt=sse&{name}=one") != digest_credentials(BASE, f"alt=sse&{name}=two")
    assert digest_credentials(BASE, f"{name}=a%26b") != digest_credentials(BASE, f"{name}=a")


@pytest.mark.parametrize("name", CHANGING_HEADERS)
def test_what_changes_with_every_request_splits_no_session(name: str) -> None:
    one, two = ({**BASE, name: value} for value in ("one", "two"))
    assert digest_credentials(one) == digest_credentials(two)


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("session=alice", "session=bob", False),
        ("_ga=GA1.2.3; sid=alice; theme=dark", "sid=bob; _ga=GA1.2.3; theme=dark", False),
        ("__Secure-next-auth.session-token=alice", "__Secure-next-auth.session-token=bob", False),
        ("broken cookie; sid=alice", "broken cookie; sid=bob", False),
        ("a=b=c", "a=b=d", False),
        ("_ga=GA1.2.3; sid=alice", "_ga=GA1.2.4; sid=alice", True),
        ("sid=alice; AWSALB=x1; __cf_bm=y1", "AWSALB=x2; __cf_bm=y2; sid=alice", True),
        ("sid=alice; XSRF-TOKEN=1", "sid=alice; XSRF-TOKEN=2", True),
    ],
)
def test_cookies_count_unless_they_are_known_to_change(one: str, two: str, *, same: bool) -> None:
    assert (digest_credentials({**BASE, "cookie": one}) == digest_credentials({**BASE, "cookie": two})) is same


def sign(key: str, signature: str, day: str = "20261128") -> str:
    """A signature of AWS's."""
    scope = f"{key}/{day}/us-east-1/bedrock/aws4_request"
    return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host;x-amz-date, Signature={signature}"


SIGNED = {
    "AWS": (sign("AKIAONE", "aa"), sign("AKIAONE", "bb", "20261129"), sign("AKIATWO", "cc")),
    "AWS, version 2": ("AWS AKIAONE:aa=", "AWS AKIAONE:bb=", "AWS AKIATWO:aa="),
    "OAuth 1": tuple(
        f'OAuth oauth_consumer_key="app", oauth_token="{user}", oauth_nonce="{nonce}", oauth_signature="{nonce}x"'
        for user, nonce in (("one", "1"), ("one", "2"), ("two", "3"))
    ),
    "Digest": tuple(
        f'Digest username="{user}", realm="r", nonce="{nonce}", uri="/v1", response="{nonce}x"'
        for user, nonce in (("one", "1"), ("one", "2"), ("two", "3"))
    ),
    "a draft of HTTP signatures": tuple(
        f'Signature keyId="{user}",algorithm="hmac-sha256",signature="{text}"'
        for user, text in (("one", "aa"), ("one", "bb"), ("two", "cc"))
    ),
}


@pytest.mark.parametrize("kind", SIGNED)
def test_of_a_signed_request_the_signer_counts(kind: str) -> None:
    first, again, other = (digest_credentials({"authorization": value}) for value in SIGNED[kind])
    assert first == again != other


def test_a_presigned_address_has_its_signer_in_the_query() -> None:
    first, again, other = (
        digest_credentials({}, f"X-Amz-Credential={key}%2F{day}%2Fus%2Fbedrock%2Faws4_request&X-Amz-Signature={text}")
        for key, day, text in (("ONE", "20261128", "aa"), ("ONE", "20261129", "bb"), ("TWO", "20261128", "aa"))
    )
    assert first == again != other


def test_a_header_that_comes_twice_counts_whole() -> None:
    headers = [(b"X-Api-Key", b"proxy"), (b"x-api-key", b"one"), (b"Cookie", b"a=1"), (b"cookie", b"b=2")]
    assert join_headers(headers) == {"x-api-key": "proxy, one", "cookie": "a=1; b=2"}


RECORDED: Mapping[str, Mapping[str, list[str]]] = json.loads(
    (Path(__file__).parent / "recorded_headers.json").read_text("utf-8")
)
"""The names of the headers that real clients sent in one session, through a restart: those whose values stayed, and
those that changed from one request to another."""


@pytest.mark.parametrize("client", RECORDED)
def test_no_session_of_a_real_client_splits(client: str) -> None:
    names = RECORDED[client]
    requests = [
        dict.fromkeys(names["stay"], "the same") | dict.fromkeys(names["change"], f"other {number}")
        for number in range(3)
    ]
    assert len({digest_credentials(each) for each in requests}) == 1
    key = [name for name in names["stay"] if is_credential(name)]
    assert key in (["authorization"], ["x-api-key"], ["x-goog-api-key"]), "its key counts, and nothing else"


@pytest.mark.parametrize(
    ("header", "query"), [("x-litellm-api-key", ""), ("cookie", ""), ("x-who", ""), ("accept", "?access_token=")]
)
@pytest.mark.parametrize("has_id", [True, False])
def test_two_users_with_equal_words_have_two_sessions(header: str, query: str, store: Store, *, has_id: bool) -> None:
    names = set()
    with run_gateway(store=store, credential_headers=["X-Who"]) as (_upstream, gateway):
        for user in ("sid=one", "sid=two"):
            talk = Talk("chat")
            talk.add_user()
            talk.add_step()
            address = f"{gateway.url}{PATHS['chat']}" + (query and f"{query}{user}")
            given = {**BASE, header: user, **({"x-session-id": "ses_1"} if has_id else {})}
            names.add(
                httpx.post(address, content=talk.build_body(), headers=given, timeout=500).headers["x-tenfold-session"]
            )
    assert len(names) == len(list_sessions(store)) == 2


def test_of_a_query_only_the_credentials_are_kept() -> None:
    assert keep_credentials("alt=sse&key=a%2Fb&$fields=x&access_token=t") == "key=a%2Fb&access_token=t"
    assert keep_credentials("alt=sse") == keep_credentials("") == ""
