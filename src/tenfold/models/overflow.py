"""Recognizes the provider errors that say that a request was larger than the context window, by a table.

Each row holds a text as a provider sends it, and where it was seen. The rows of a wire's own provider stand in its
profile; here are those of everybody else who speaks its API. A text with another meaning wins over all that mean an
overflow. An error about the number of bytes (413) counts as an overflow, because only a shorter request helps there
too. A limit of tokens per minute does not count, because it belongs to the account and not to the model. Many texts
name the limit, and `find_named_limit` reads it.
"""

from __future__ import annotations

from tenfold.core.wire import WIRES
from tenfold.core.wire.profiles import ErrorPattern, build_look_alike, build_overflow

MIN_LIMIT, MAX_LIMIT = 1_000, 100_000_000
"""Between which numbers of tokens a named limit may be a window. Anything else is no window of a model."""
_STATUS = r"(?:^\W*|(?:http|error|code|status)\W{0,5})"


HOST_ERRORS: tuple[ErrorPattern, ...] = (
    # Limits of the account: waiting or paying helps.
    build_look_alike("any", _STATUS + r"429\b", "anthropics/claude-code#236"),
    build_look_alike("Bedrock", r"tokens per day|throttl|too many tokens, please wait", "anthropics/claude-code#1466"),
    # The requested answer is longer than the model can give: a shorter prompt does not help.
    build_look_alike("Bedrock", r"maximum tokens you requested exceeds? the model limit", "charmbracelet/crush#946"),
    build_look_alike("DeepSeek", r"invalid max_tokens value", "CherryHQ/cherry-studio#4377"),
    build_look_alike("Groq", r"max_tokens\W{1,3}must be less than or equal", "anomalyco/opencode#1000"),
    build_look_alike("Ark", r"max_(?:completion_)?tokens\W.{0,80}expected a value <=", "langgenius/dify#14376"),
    # Cerebras reports an overflow like this, but gateways report anything like this.
    build_look_alike("gateways", r"\b400\b.{0,20}\(no body\)", "earendil-works/pi#9482"),
    # All rows from here on are overflows.
    build_overflow(
        "Azure, DeepSeek",
        r"you requested <n> tokens \(<n> in (?:the messages|your prompt)",
        "Azure/azure-sdk-for-python#40986, evalstate/fast-agent#621, FoundationAgents/OpenManus#62",
    ),
    build_overflow("OpenRouter", r"you requested about <n> tokens \(<n> of text input", "refly-ai/refly#1177"),
    build_overflow(
        "vLLM",
        r"maximum context length is <n> tokens.{0,80}(?:request has|contains at least) <n> input tokens",
        "earendil-works/pi#5929, BerriAI/litellm#22478",
    ),
    build_overflow(
        "vLLM", r"context length is <n> tokens\W+however,? you requested <n> tokens\.", "THUDM/LongBench#104"
    ),
    build_overflow(
        "vLLM", r"length <n>\) is longer than the maximum model length of <limit>", "xorbitsai/inference#3785"
    ),
    build_overflow(
        "vLLM", r"length <n>\) is too long to fit into the model \(context length <limit>", "vllm-project/vllm#12165"
    ),
    build_overflow(
        "SGLang",
        r"maximum context length of <n> tokens.{0,60}: <n> tokens from the input messages",
        "anomalyco/opencode#25230",
    ),
    build_overflow(
        "SGLang", r"\(<n> tokens\) is longer than the model.{1,3} context length \(<limit>", "QwenLM/Qwen3#1321"
    ),
    build_overflow(
        "SGLang", r"length \(<n> tokens\) exceeds the maximum allowed length \(<limit>", "sgl-project/sglang#4048"
    ),
    build_overflow("vLLM", r"exceeds the max_model_len", "strands-agents/sdk-python"),
    build_overflow("OpenAI, Bedrock", r"exceed(?:s|ed)?(?: customer)? model maximum", "strands-agents/sdk-python"),
    build_overflow("Groq", r"reduce the length of the (?:messages|prompt|input)", "letta-ai/letta#1963"),
    build_overflow("Cerebras", r"current length is <n> while limit is <limit>", "cline/cline#5140"),
    build_overflow("Cerebras", _STATUS + r"413\b", "openclaw/openclaw#119596"),
    build_overflow("proxies", r"(?:request entity|payload|content) too large", "anomalyco/opencode#14064"),
    build_overflow("xAI", r"maximum prompt length is <limit>", "cline/cline#3120"),
    build_overflow(
        "Mistral",
        r"prompt contains <n> tokens.{0,40}too large for model with <limit> maximum context length",
        "Portkey error library: context length exceeded error 13710000",
    ),
    build_overflow("Bedrock", r"input is too long", "aws-samples/bedrock-chat#95"),
    build_overflow(
        "Bedrock", r"too many input tokens(?:\. max input tokens: <limit>)?", "pkdone/paul-genai-test-tools-ts"
    ),
    build_overflow("Bedrock", r"expected maxLength: <n>, actual: <n>", "ryanadoty/Amazon-Bedrock-Amazon-RDS-POC#9"),
    build_overflow("Bedrock", r"too many total text bytes", "open-webui/open-webui#11620"),
    build_overflow("Ollama", r"prompt too long; exceeded max context length", "earendil-works/pi#2626"),
    build_overflow("Ollama", r"input length exceeds the context length", "nano-step/nano-brain#208"),
    build_overflow(
        "llama.cpp", r"exceeds the available context size(?: \(<limit> tokens\))?", "langchain-ai/openwiki#648"
    ),
    build_overflow(
        "llama.cpp", r"exceed_context_size_error(?:.{0,80}\bn_ctx\W{1,4}<limit>)?", "ggml-org/llama.cpp#15780"
    ),
    build_overflow(
        "llama-cpp-python", r"tokens(?: \(<n>\))? exceed context window of <limit>", "run-llama/llama_index#8046"
    ),
    build_overflow(
        "LM Studio", r"greater than the context length(?: \(n_keep: <n>\s?>= n_ctx: <limit>)?", "Gitlawb/openclaude#353"
    ),
    build_overflow(
        "LM Studio",
        r"keep the first <n> tokens when context the overflows.{0,60}context length of only <limit> tokens",
        "lmstudio-ai/lmstudio-bug-tracker#546",
    ),
    build_overflow("DS4", r"prompt tokens \(<n>\) exceeds context size \(<limit>\)", "antirez/ds4#150"),
    build_overflow("Copilot", r"prompt token count of <n> exceeds the limit of <limit>", "microsoft/vscode#289219"),
    build_overflow("Copilot", r"token[_ ]limit[_ ]exceeded", "microsoft/copilot-intellij-feedback#1289"),
    build_overflow("GitHub Models", r"tokens_limit_reached", "eslint/tsc-meetings#593"),
    build_overflow("GitHub Models", r"request body too large(?:.{0,80}max size: <limit> tokens)?", "cline/cline#2115"),
    build_overflow("MiniMax", r"context window exceeds limit", "MiniMax-AI/MiniMax-M2#119"),
    build_overflow("Kimi", r"exceeded model token limit(?:: <limit>)?", "MoonshotAI/kimi-cli#2011"),
    build_overflow("z.ai", r"tokens in request more than max tokens allowed", "anomalyco/opencode#27629"),
    build_overflow("z.ai", r"prompt exceeds max length", "zeroclaw-labs/zeroclaw#4124"),
    build_overflow("Ark", r"tokens of image and text exceed max message tokens", "sipeed/picoclaw#183"),
    build_overflow("Ark", r"input length <n> exceeds the maximum length <limit>", "langgenius/dify#32221"),
    build_overflow("DashScope", r"range of input length should be \[1, <limit>\]", "QwenLM/qwen-code#98"),
    build_overflow(
        "SiliconFlow", r"\(<n>\) ha(?:s|ve) exceeded max_prompt_tokens \(<limit>\)", "leookun/cursor-byok#129"
    ),
    build_overflow(
        "Fireworks", r"prompt is too long: <n>, model maximum context length: <limit>", "fw-ai/cookbook#134"
    ),
    build_overflow("TGI", r"must be <= <limit>\. given: <n> .?inputs", "huggingface/text-generation-inference#628"),
    build_overflow(
        "TGI", r"must have less than <limit> tokens\. given: <n>", "huggingface/text-generation-inference#695"
    ),
    build_overflow("Cohere", r"too many tokens(?:.{0,80}cannot exceed <limit>)?", "cohere-ai/sandbox-topically#4"),
    build_overflow("LiteLLM", r"context ?window ?exceeded", "entropy-research/Devon#88"),
)
"""The texts of other servers that speak the API of one of these providers, and of what stands before one."""


def list_error_patterns() -> list[ErrorPattern]:
    """Returns all known texts: those of the wires' own providers, and `HOST_ERRORS`. Several may match one error."""
    return [*(row for wire in WIRES.values() for row in wire.profile.errors), *HOST_ERRORS]


def is_overflow(error: str, *, status: int | None = None) -> bool:
    """Tells whether an error says that the request was too large for the model, so that a shorter one may pass.

    `error` is the whole text of the provider, in any wrapping. `status` is the HTTP status, if it is known: 429 is
    never an overflow. 413 always is, unless the text names another cause. For any other status only the text counts, so
    a 400 without a body is not an overflow.
    """
    text = " ".join(error.split())
    rows = list_error_patterns()
    if status == 429 or any(row.pattern.search(text) for row in rows if not row.is_overflow):
        return False
    return status == 413 or any(row.pattern.search(text) for row in rows if row.is_overflow)


def read_provider_error(error: BaseException) -> tuple[str, int | None]:
    """Reads the text and the HTTP status of an exception of a provider's SDK or an HTTP client, for `is_overflow`.

    The status is None if the exception has none.
    """
    response = getattr(error, "response", None)
    stated = (getattr(error, "status_code", None), getattr(error, "code", None), getattr(response, "status_code", None))
    status = next((value for value in stated if isinstance(value, int)), None)
    try:
        body = getattr(error, "body", None) or getattr(response, "text", "") or ""
    except RuntimeError:  # the response is a stream that was not read
        body = ""
    return f"{error} {body}", status


def find_named_limit(error: str, *, status: int | None = None) -> int | None:
    """Finds the most tokens that a request may have by an overflow error: the window of the model, or its input.

    None for any other error, such as one about tokens per minute, for one that names no such number, or only numbers
    that cannot be a window. If several are named, the least counts. Takes what `is_overflow` takes.

    find_named_limit("prompt is too long: 218849 tokens > 200000 maximum")  # 200000
    """
    if not is_overflow(error, status=status):
        return None
    text = " ".join(error.split())
    rows = (row for row in list_error_patterns() if "limit" in row.pattern.groupindex)
    found = (match["limit"] for row in rows for match in row.pattern.finditer(text))
    limits = (int(number.replace(",", "")) for number in found if number)
    return min((limit for limit in limits if MIN_LIMIT <= limit <= MAX_LIMIT), default=None)
