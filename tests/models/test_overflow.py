"""Errors of a request that was too large for the model: one text per row of the table, and what only looks alike."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.models.overflow import find_named_limit, is_overflow, list_error_patterns

LOOK_ALIKES: tuple[str, ...] = (
    "API Error (429 prompt is too long for now, please wait)",
    (
        "Error code: 413 - {'error': {'message': 'Request too large for model `llama-3.3-70b-versatile` in "
        "organization `org_0` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 14810, please "
        "reduce your message size and try again.', 'type': 'tokens', 'code': 'rate_limit_exceeded'}}"
    ),
    (
        "An error occurred (ThrottlingException) when calling the InvokeModel operation (reached max retries: 4): "
        "Too many tokens, please wait before trying again."
    ),
    (
        '{"type":"error","error":{"type":"rate_limit_error","message":"Extra usage is required for long context '
        'requests."},"request_id":"req_011CaS"}'
    ),
    (
        "You exceeded your current quota, please check your plan and billing details. * Quota exceeded for metric: "
        "generativelanguage.googleapis.com/generate_content_free_tier_input_token_count, limit: 0, model: "
        "gemini-2.5-pro"
    ),
    '529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    (
        '400 {"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 128001 > 64000, which is '
        'the maximum allowed number of output tokens for claude-opus-4-5-20251101"}}'
    ),
    "400 max_tokens is too large: 6000. This model supports at most 4096 completion tokens, whereas you provided 6000.",
    (
        "ValidationException: The maximum tokens you requested exceeds the model limit of 4096. Try again with a "
        "maximum tokens value that is lower than 4096."
    ),
    "400 Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
    "AI_APICallError: `max_tokens` must be less than or equal to `16384`",
    (
        "The parameter `max_tokens` specified in the request are not valid: integer above maximum value, expected a "
        "value <= 4096, but got 8192 instead."
    ),
    '400 status code: {"error":"Error from inference backend: 400 status code (no body)"}',
    (
        "Invalid 'input[95].call_id': string too long. Expected a string with maximum length 64, but got a string with "
        "length 116 instead."
    ),
)

OVERFLOWS: tuple[str, ...] = (
    (
        '400 {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 218849 tokens '
        '> 200000 maximum"},"request_id":"req_011CV"}'
    ),
    (
        '400 {"type":"error","error":{"message":"input length and `max_tokens` exceed context limit: \n     189136 '
        '+ 20000 > 204648, decrease input length or `max_tokens` and try again"}}'
    ),
    "{'error': {'type': 'request_too_large', 'message': 'Request exceeds the maximum size'}}",
    '{"type":"invalid_request_error","message":"Request size exceeds model context window"}',
    "Unhandled stop reason: model_context_window_exceeded",
    '{"error":{"type":"invalid_request_error","code":"context_length_exceeded","param":"input"}}',
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "API Error: 400 Prompt exceeds maximum context length",
    (
        "Error code: 400 - {'error': {'message': \"This model\\'s maximum context length is 128000 tokens. "
        "However, your messages resulted in 202868 tokens (202767 in the messages, 101 in the functions). Please "
        "reduce the length of the messages or functions.\", 'code': 'context_length_exceeded'}}"
    ),
    (
        "This model's maximum context length is 8192 tokens. However, you requested 8213 tokens (6683 in the "
        "messages, 730 in the functions, and 800 in the completion). Please reduce the length of the messages, "
        "functions, or completion."
    ),
    (
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 138956 tokens (7884 "
        "of "
        'text input, 131072 in the output). Please reduce the length of either one, or use the "middle-out" '
        "transform"
        " to compress your prompt automatically."
    ),
    (
        "400 This model's maximum context length is 262144 tokens. However, you requested 128000 output tokens and "
        "your prompt contains at least 134145 input tokens, for a total of at least 262145 tokens. Please reduce "
        "the length of the input prompt. (parameter=input_tokens, value=134145)"
    ),
    (
        "This model's maximum context length is 131072 tokens. However, you requested 351430 tokens. Please reduce "
        "the length of the messages or completion."
    ),
    "The decoder prompt (length 21535) is longer than the maximum model length of 16384.",
    (
        "ValueError: The prompt (total length 25938) is too long to fit into the model (context length 4096). Make "
        "sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens."
    ),
    (
        "Bad Request: Requested token count exceeds the model's maximum context length of 202752 tokens. You "
        "requested a total of 202941 tokens: 170941 tokens from the input messages and 32000 tokens for the "
        "completion."
    ),
    "The input (61709 tokens) is longer than the model\\'s context length (40960 tokens).",
    "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).",
    (
        "400 Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 289650 tokens. "
        "Please reduce the length of the messages."
    ),
    (
        "Invalid 'messages[17].content': string too long. Expected a string with maximum length 1048576, but got a "
        "string with length 1744259 instead."
    ),
    (
        '[{ "error": { "code": 400, "message": "The input token count (1200293) exceeds the maximum number of '
        'tokens allowed (1048576).", "status": "INVALID_ARGUMENT" } }]'
    ),
    "{'error': {'message': 'Please reduce the length of the messages or completion.', 'param': 'messages'}}",
    "400 Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000",
    "413 status code (no body)",
    "<html><head><title>Request Entity Too Large</title></head></html>",
    '400 "This model\'s maximum prompt length is 131072 but the request contains 136973 tokens."',
    "Prompt contains 66385 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "The model returned the following errors: Input is too long for requested model.",
    (
        "ValidationException: 400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token "
        "count: 9279 "
    ),
    (
        "An error occurred (ValidationException) when calling the InvokeModel operation: Malformed input request: "
        "expected maxLength: 42000, actual: 46735, please reformat your input and try again."
    ),
    "The model returned the following errors: too many total text bytes",
    "400 `prompt too long; exceeded max context length by 100918 tokens`",
    'ollama: unexpected status 400: {"error":"the input length exceeds the context length"}',
    "Error 400 request (131168 tokens) exceeds the available context size (131072 tokens), try increasing it",
    (
        '{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the '
        "context size or enable context "
        'shift","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}'
    ),
    "ValueError: Requested tokens (2065) exceed context window of 1800",
    (
        'API Error: 400 {"error":"The number of tokens to keep from the initial prompt is greater than the context '
        'length (n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length."}'
    ),
    (
        "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with "
        "context length of only 7866 tokens, which is not enough."
    ),
    "Prompt tokens (9000) exceeds context size (8192)",
    (
        '400 {"error":{"message":"prompt token count of 140,000 exceeds the limit of 128,000",'
        '"code":"model_max_prompt_tokens_exceeded"}}'
    ),
    "Oops, the token limit exceeded. Try to shorten your prompt or start a new conversation.",
    '{"error":{"code":"tokens_limit_reached"}}',
    "413 Request body too large for meta-llama-3-70b-instruct model. Max size: 8000 tokens.",
    "invalid params, context window exceeds limit (2013)",
    (
        "Error code: 400 - {'error': {'message': 'Invalid request: Your request exceeded model token limit: 262144 "
        "(requested: 269030)', 'type': 'invalid_request_error'}}"
    ),
    "tokens in request more than max tokens allowed",
    'Z.AI API error (400 Bad Request): {"error":{"code":"1261","message":"Prompt exceeds max length"}}',
    (
        '{"error":{"code":"InvalidParameter","message":"Total tokens of image and text exceed max message tokens. '
        'Request id: 0217","param":"","type":"BadRequest"}}'
    ),
    "{'code': 'InvalidParameter', 'message': 'Input length 203743 exceeds the maximum length 202752'}",
    "400 <400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 983616]",
    '{"code":20015,"message":"number of input tokens (204703) has exceeded max_prompt_tokens (202752) limit."}',
    '{"error":{"object":"error","message":"The prompt is too long: 40177, model maximum context length: 32767"}}',
    (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 1512. Given: 1000 `inputs` tokens "
        "and 1024 `max_new_tokens`"
    ),
    "Input validation error: `inputs` must have less than 1024 tokens. Given: 1168.",
    (
        "CohereError: too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - "
        "received 6354. Try using a shorter prompt or a smaller max_tokens value."
    ),
    "litellm.ContextWindowExceededError: AnthropicError - the messages do not fit",
)

PLAIN = (
    "connection invalid model prompt input context window token tokens length limit maximum request size error api key"
    " messages the is of a not found please try again server 400 401 404 500 503 8192 200000 timeout"
)
"""Words of other errors, and of the table's phrases without what joins those: too, exceed, reduce."""


@pytest.mark.parametrize("text", OVERFLOWS)
def test_each_overflow_is_recognised(text: str) -> None:
    assert is_overflow(text)
    assert is_overflow(text, status=400)
    assert is_overflow(f"litellm.BadRequestError: {text}\nReceived Model Group=m".upper()), "in another wrapping"
    assert not is_overflow(text, status=429)


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_each_look_alike_is_no_overflow_whatever_the_status(text: str) -> None:
    assert not is_overflow(text)
    assert not is_overflow(text, status=413)
    assert not is_overflow(f"{text} (prompt is too long: 3 tokens > 2 maximum)"), "a look-alike wins"


def test_each_row_has_a_text_and_each_text_a_row() -> None:
    for is_overflow_row, texts in ((True, OVERFLOWS), (False, LOOK_ALIKES)):
        rows = [row for row in list_error_patterns() if row.is_overflow is is_overflow_row]
        found = {text: [row for row in rows if row.pattern.search(" ".join(text.split()))] for text in texts}
        assert len(rows) == len(texts)
        assert all(found.values())
        assert {id(row) for matching in found.values() for row in matching} == set(map(id, rows))


@pytest.mark.parametrize(
    "text", ["", "bad key", "HTTP 400: model not found", "took 413 ms", "id 429-413", "max_tokens cannot exceed 4096"]
)
def test_other_errors_are_none(text: str) -> None:
    assert not is_overflow(text)
    assert not is_overflow(text, status=400)
    assert is_overflow(text, status=413)


@pytest.mark.parametrize("text", ["HTTP 413: x", "HTTP 413", "status_code: 413, model_name: m, body: None", "413 x"])
def test_a_413_is_one_without_a_word_from_the_provider(text: str) -> None:
    assert is_overflow(text)


def test_other_wordings_of_known_rows() -> None:
    assert is_overflow(
        "This model's maximum context length is 8191 tokens, however you requested 8238 tokens (8238 in your prompt; 0 "
        "for the completion). Please reduce your prompt; or completion length."
    )
    assert is_overflow(
        "'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context length is 64001 "
        "tokens and your request has 24235 input tokens (64000 > 64001 - 24235)."
    ), "the prompt fits: it is the answer asked for that does not"
    assert is_overflow("The input token count exceeds the maximum number of tokens allowed (1048576).")


def test_each_row_says_where_it_was_seen() -> None:
    issue = r"[\w.-]+/[\w.-]+(#\d+)?"
    for row in list_error_patterns():
        assert re.fullmatch(rf"{issue}(, {issue})*|[A-Z][\w ]+: .+", row.evidence), row
        assert row.provider
    rows = list_error_patterns()
    assert len({row.pattern.pattern for row in rows}) == len(rows)


@given(st.lists(st.sampled_from(PLAIN.split()), max_size=40))
def test_words_without_a_phrase_of_the_table_are_no_overflow(words: list[str]) -> None:
    text = " ".join(words)
    assert not is_overflow(text)


@given(st.text(st.characters(exclude_categories=("L", "N", "Cs")), max_size=60), st.sampled_from(OVERFLOWS))
def test_what_stands_around_a_text_changes_nothing(noise: str, text: str) -> None:
    assert is_overflow(f"{noise} {text} {noise}")


NAMED_LIMITS = (
    200_000, 204_648, None, None, None, None, None, None, 128_000, 8_192, 131_072, 262_144, 131_072, 16_384, 4_096,
    202_752, 40_960, 59_862, 272_000, None, 1_048_576, None, 40_000, None, None, 131_072, 32_768, None, 8_192, None,
    None, None, None, 131_072, 8_192, 1_800, 4_096, 7_866, 8_192, 128_000, None, None, 8_000, None, 262_144, None, None,
    None, 202_752, 983_616, 202_752, 32_767, 1_512, 1_024, 2_048, None,
)  # fmt: skip
"""The limit that each of `OVERFLOWS` names. Numbers of bytes and characters are none."""


@pytest.mark.parametrize(("text", "limit"), list(zip(OVERFLOWS, NAMED_LIMITS, strict=True)))
def test_the_limit_that_an_overflow_names_is_read(text: str, limit: int | None) -> None:
    assert find_named_limit(text, status=400) == limit
    assert find_named_limit(f"litellm.BadRequestError: {text}".upper()) == limit, "in another wrapping"
    assert find_named_limit(text, status=429) is None


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_what_only_looks_like_an_overflow_names_no_limit(text: str) -> None:
    assert find_named_limit(text, status=400) is None
    assert find_named_limit(f"{text} (prompt is too long: 3000 tokens > 2000 maximum)") is None


@pytest.mark.parametrize(("number", "limit"), [
    ("0", None), ("999", None), ("1000", 1_000), ("100,000,000", 100_000_000), ("100000001", None), ("9" * 30, None),
])  # fmt: skip
def test_a_number_that_can_be_no_window_is_none(number: str, limit: int | None) -> None:
    assert find_named_limit(f"prompt is too long: 5 tokens > {number} maximum") == limit
    assert is_overflow(f"prompt is too long: 5 tokens > {number} maximum")


def test_of_several_limits_the_least_counts() -> None:
    text = "prompt is too long: 9 tokens > 8000 maximum; This model's maximum context length is 4096 tokens."
    assert find_named_limit(text) == 4_096
