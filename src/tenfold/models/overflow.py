"""Recognizes the provider errors that say that a request was larger than the context window, by one table.

Each row holds a text as a provider sends it, and where it was seen. Similar texts with another meaning come first, and
they win. An error about the number of bytes (413) counts as an overflow, because only a shorter request helps there
too. A limit of tokens per minute does not count, because it belongs to the account and not to the model. Many texts
name the limit, and `find_named_limit` reads it.
"""

from __future__ import annotations

import re

from msgspec import Struct

_NUMBER = r"\d[\d,]{0,15}"
_LIMIT = rf"(?P<limit>{_NUMBER})"
MIN_LIMIT, MAX_LIMIT = 1_000, 100_000_000
"""Between which numbers of tokens a named limit may be a window. Anything else is no window of a model."""
_STATUS = r"(?:^\W*|(?:http|error|code|status)\W{0,5})"


class ErrorPattern(Struct, frozen=True):
    """One known error text: its provider, its pattern, where it was seen, and whether it means an overflow.

    `evidence` is an issue as owner/repo#1, a repository, or the title of a page.
    """

    provider: str
    pattern: re.Pattern[str]
    evidence: str
    is_overflow: bool


def _build_pattern(provider: str, pattern: str, evidence: str, *, is_overflow: bool = True) -> ErrorPattern:
    """Builds a row. `<n>` stands for a number, and `<limit>` for the most tokens that a request may have."""
    text = pattern.replace("<n>", _NUMBER).replace("<limit>", _LIMIT)
    return ErrorPattern(provider, re.compile(text, re.IGNORECASE), evidence, is_overflow)


def _build_other(provider: str, pattern: str, evidence: str) -> ErrorPattern:
    return _build_pattern(provider, pattern, evidence, is_overflow=False)


ERROR_PATTERNS: tuple[ErrorPattern, ...] = (
    # Limits of the account: waiting or paying helps.
    _build_other("any", _STATUS + r"429\b", "anthropics/claude-code#236"),
    _build_other("Groq, OpenAI", r"tokens per min|\bTPM\b", "continuedev/continue#10218, vanna-ai/vanna-flask#11"),
    _build_other("Bedrock", r"tokens per day|throttl|too many tokens, please wait", "anthropics/claude-code#1466"),
    _build_other("Anthropic", r"rate.?limit|too many requests", "anthropics/claude-code#53607"),
    _build_other("Google, OpenAI", r"quota", "continuedev/continue#9729"),
    _build_other("Anthropic", r"overloaded", "Claude API: Errors"),
    # The requested answer is longer than the model can give: a shorter prompt does not help.
    _build_other("Anthropic", r"maximum allowed number of output tokens", "anthropics/claude-code#24451"),
    _build_other("OpenAI", r"supports at most <n> completion tokens", "ChatGPTNextWeb/NextChat#3195"),
    _build_other("Bedrock", r"maximum tokens you requested exceeds? the model limit", "charmbracelet/crush#946"),
    _build_other("DeepSeek", r"invalid max_tokens value", "CherryHQ/cherry-studio#4377"),
    _build_other("Groq", r"max_tokens\W{1,3}must be less than or equal", "anomalyco/opencode#1000"),
    _build_other("Ark", r"max_(?:completion_)?tokens\W.{0,80}expected a value <=", "langgenius/dify#14376"),
    # Cerebras reports an overflow like this, but gateways report anything like this.
    _build_other("gateways", r"\b400\b.{0,20}\(no body\)", "earendil-works/pi#9482"),
    _build_other("OpenAI", r"call_id\W{1,3}string too long", "AnswerDotAI/fastllm#45"),
    # All rows from here on are overflows.
    _build_pattern("Anthropic", r"prompt is too long(?:: <n> tokens > <limit>)?", "anthropics/claude-code#12186"),
    _build_pattern("Anthropic", r"exceed context limit(?:: <n> \+ <n> > <limit>)?", "continuedev/continue#6080"),
    _build_pattern(
        "Anthropic", r"request_too_large|request exceeds the maximum size", "anthropics/anthropic-sdk-python#938"
    ),
    _build_pattern("Anthropic", r"request size exceeds model context window", "anthropics/claude-code#6380"),
    _build_pattern("Anthropic, z.ai", r"model_context_window_exceeded", "openclaw/openclaw#35940"),
    _build_pattern("OpenAI", r"context[_ ]length[_ ]exceeded", "dyad-sh/dyad#1672"),
    _build_pattern(
        "OpenAI Responses",
        r"exceed(?:s|ed)? (?:the |this model.?s )?(?:maximum )?context (?:window|length|size)",
        "VectorlyApp/bluebox#66",
    ),
    _build_pattern("OpenAI, others", r"maximum context length(?:(?: is| of|:) <limit>)?", "ddalcu/mlx-serve#66"),
    _build_pattern("OpenAI Chat", r"your messages resulted in <n> tokens", "AsyncFuncAI/deepwiki-open#144"),
    _build_pattern(
        "Azure, DeepSeek",
        r"you requested <n> tokens \(<n> in (?:the messages|your prompt)",
        "Azure/azure-sdk-for-python#40986, evalstate/fast-agent#621, FoundationAgents/OpenManus#62",
    ),
    _build_pattern("OpenRouter", r"you requested about <n> tokens \(<n> of text input", "refly-ai/refly#1177"),
    _build_pattern(
        "vLLM",
        r"maximum context length is <n> tokens.{0,80}(?:request has|contains at least) <n> input tokens",
        "earendil-works/pi#5929, BerriAI/litellm#22478",
    ),
    _build_pattern(
        "vLLM", r"context length is <n> tokens\W+however,? you requested <n> tokens\.", "THUDM/LongBench#104"
    ),
    _build_pattern(
        "vLLM", r"length <n>\) is longer than the maximum model length of <limit>", "xorbitsai/inference#3785"
    ),
    _build_pattern(
        "vLLM", r"length <n>\) is too long to fit into the model \(context length <limit>", "vllm-project/vllm#12165"
    ),
    _build_pattern(
        "SGLang",
        r"maximum context length of <n> tokens.{0,60}: <n> tokens from the input messages",
        "anomalyco/opencode#25230",
    ),
    _build_pattern(
        "SGLang", r"\(<n> tokens\) is longer than the model.{1,3} context length \(<limit>", "QwenLM/Qwen3#1321"
    ),
    _build_pattern(
        "SGLang", r"length \(<n> tokens\) exceeds the maximum allowed length \(<limit>", "sgl-project/sglang#4048"
    ),
    _build_pattern("OpenAI, Azure", r"input tokens exceed the configured limit of <limit> tokens", "cline/cline#5474"),
    _build_pattern(
        "OpenAI", r"(?:content|input)\W{1,3}string too long", "VectorlyApp/bluebox#31, gptscript-ai/clio#41"
    ),
    _build_pattern(
        "Google",
        r"input token count(?: \(<n>\))? exceeds the maximum number of tokens allowed(?: \(<limit>\))?",
        "google-gemini/gemini-cli#6678",
    ),
    _build_pattern("Groq", r"reduce the length of the (?:messages|prompt|input)", "letta-ai/letta#1963"),
    _build_pattern("Cerebras", r"current length is <n> while limit is <limit>", "cline/cline#5140"),
    _build_pattern("Cerebras", _STATUS + r"413\b", "openclaw/openclaw#119596"),
    _build_pattern("proxies", r"(?:request entity|payload|content) too large", "anomalyco/opencode#14064"),
    _build_pattern("xAI", r"maximum prompt length is <limit>", "cline/cline#3120"),
    _build_pattern(
        "Mistral",
        r"prompt contains <n> tokens.{0,40}too large for model with <limit> maximum context length",
        "Portkey error library: context length exceeded error 13710000",
    ),
    _build_pattern("Bedrock", r"input is too long", "aws-samples/bedrock-chat#95"),
    _build_pattern(
        "Bedrock", r"too many input tokens(?:\. max input tokens: <limit>)?", "pkdone/paul-genai-test-tools-ts"
    ),
    _build_pattern("Bedrock", r"expected maxLength: <n>, actual: <n>", "ryanadoty/Amazon-Bedrock-Amazon-RDS-POC#9"),
    _build_pattern("Bedrock", r"too many total text bytes", "open-webui/open-webui#11620"),
    _build_pattern("Ollama", r"prompt too long; exceeded max context length", "earendil-works/pi#2626"),
    _build_pattern("Ollama", r"input length exceeds the context length", "nano-step/nano-brain#208"),
    _build_pattern(
        "llama.cpp", r"exceeds the available context size(?: \(<limit> tokens\))?", "langchain-ai/openwiki#648"
    ),
    _build_pattern(
        "llama.cpp", r"exceed_context_size_error(?:.{0,80}\bn_ctx\W{1,4}<limit>)?", "ggml-org/llama.cpp#15780"
    ),
    _build_pattern(
        "llama-cpp-python", r"tokens(?: \(<n>\))? exceed context window of <limit>", "run-llama/llama_index#8046"
    ),
    _build_pattern(
        "LM Studio", r"greater than the context length(?: \(n_keep: <n>\s?>= n_ctx: <limit>)?", "Gitlawb/openclaude#353"
    ),
    _build_pattern(
        "LM Studio",
        r"keep the first <n> tokens when context the overflows.{0,60}context length of only <limit> tokens",
        "lmstudio-ai/lmstudio-bug-tracker#546",
    ),
    _build_pattern("DS4", r"prompt tokens \(<n>\) exceeds context size \(<limit>\)", "antirez/ds4#150"),
    _build_pattern("Copilot", r"prompt token count of <n> exceeds the limit of <limit>", "microsoft/vscode#289219"),
    _build_pattern("Copilot", r"token[_ ]limit[_ ]exceeded", "microsoft/copilot-intellij-feedback#1289"),
    _build_pattern("GitHub Models", r"tokens_limit_reached", "eslint/tsc-meetings#593"),
    _build_pattern("GitHub Models", r"request body too large(?:.{0,80}max size: <limit> tokens)?", "cline/cline#2115"),
    _build_pattern("MiniMax", r"context window exceeds limit", "MiniMax-AI/MiniMax-M2#119"),
    _build_pattern("Kimi", r"exceeded model token limit(?:: <limit>)?", "MoonshotAI/kimi-cli#2011"),
    _build_pattern("z.ai", r"tokens in request more than max tokens allowed", "anomalyco/opencode#27629"),
    _build_pattern("z.ai", r"prompt exceeds max length", "zeroclaw-labs/zeroclaw#4124"),
    _build_pattern("Ark", r"tokens of image and text exceed max message tokens", "sipeed/picoclaw#183"),
    _build_pattern("Ark", r"input length <n> exceeds the maximum length <limit>", "langgenius/dify#32221"),
    _build_pattern("DashScope", r"range of input length should be \[1, <limit>\]", "QwenLM/qwen-code#98"),
    _build_pattern(
        "SiliconFlow", r"\(<n>\) ha(?:s|ve) exceeded max_prompt_tokens \(<limit>\)", "leookun/cursor-byok#129"
    ),
    _build_pattern(
        "Fireworks", r"prompt is too long: <n>, model maximum context length: <limit>", "fw-ai/cookbook#134"
    ),
    _build_pattern("TGI", r"must be <= <limit>\. given: <n> .?inputs", "huggingface/text-generation-inference#628"),
    _build_pattern(
        "TGI", r"must have less than <limit> tokens\. given: <n>", "huggingface/text-generation-inference#695"
    ),
    _build_pattern("Cohere", r"too many tokens(?:.{0,80}cannot exceed <limit>)?", "cohere-ai/sandbox-topically#4"),
    _build_pattern("LiteLLM", r"context ?window ?exceeded", "entropy-research/Devon#88"),
)
"""All known texts. Several rows may match the same error."""


def is_overflow(error: str, *, status: int | None = None) -> bool:
    """Tells whether an error says that the request was too large for the model, so that a shorter one may pass.

    `error` is the whole text of the provider, in any wrapping. `status` is the HTTP status, if it is known: 429 is
    never an overflow. 413 always is, unless the text names another cause. For any other status only the text counts, so
    a 400 without a body is not an overflow.
    """
    text = " ".join(error.split())
    if status == 429 or any(row.pattern.search(text) for row in ERROR_PATTERNS if not row.is_overflow):
        return False
    return status == 413 or any(row.pattern.search(text) for row in ERROR_PATTERNS if row.is_overflow)


def find_named_limit(error: str, *, status: int | None = None) -> int | None:
    """Finds the most tokens that a request may have by an overflow error: the window of the model, or its input.

    None for any other error, such as one about tokens per minute, for one that names no such number, or only numbers
    that cannot be a window. If several are named, the least counts. Takes what `is_overflow` takes.

    find_named_limit("prompt is too long: 218849 tokens > 200000 maximum")  # 200000
    """
    if not is_overflow(error, status=status):
        return None
    text = " ".join(error.split())
    found = (match["limit"] for row in _LIMIT_PATTERNS for match in row.pattern.finditer(text))
    limits = (int(number.replace(",", "")) for number in found if number)
    return min((limit for limit in limits if MIN_LIMIT <= limit <= MAX_LIMIT), default=None)


_LIMIT_PATTERNS = tuple(row for row in ERROR_PATTERNS if "limit" in row.pattern.groupindex)
