"""What the real APIs refuse, each rule with its evidence: OpenAI Chat and Responses, Anthropic, Google.

Written from what the providers document and from the errors that they were seen to answer, and from nothing of this
project, so that it can prove it wrong. A row's `answer` is the text that a real provider gave, `seen` an issue as
owner/repo#1 or a page where it can be read.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Row(Struct, frozen=True):
    """One rule: what is documented, what is answered to a request that breaks it, and where that was seen."""

    documented: str
    answer: str
    seen: str
    param: str | None = None
    code: str | None = None
    status: int = 400


ROWS: Mapping[str, Row] = {
    # -- Anthropic -----------------------------------------------------------------------------------------------------
    "messages.max_tokens": Row(
        "max_tokens is required", "max_tokens: Field required", "Claude API: Messages, body.max_tokens"
    ),
    "messages.none": Row(
        "messages is required", "messages: at least one message is required", "Claude API: Messages, body.messages"
    ),
    "messages.role": Row(
        "a message's role is user or assistant; system is a field of its own",
        'messages: Unexpected role "{role}". The Messages API accepts a top-level `system` parameter, not "system" as '
        "an input message role.",
        "CherryHQ/cherry-studio#12316, Maol-1997/cursor-claude-connector#3",
    ),
    "messages.system_first": Row(
        "models since Opus 4.8 take system messages in the list, but not as the first",
        "messages.{n}: use the top-level 'system' parameter for the initial system prompt",
        "LeenHawk/gproxy#209",
    ),
    "messages.system_place": Row(
        "a system message in the list stands between a user's message and an answer, or last",
        "messages.{n}: role 'system' must precede an 'assistant' message or end the array",
        "anthropics/claude-code#73821",
    ),
    "messages.first": Row(
        "the conversation begins with a user's message (the API itself was since seen to take another)",
        'messages: first message must use the "user" role',
        "lobehub/lobehub#1601, anthropics/courses#79",
    ),
    "messages.last": Row(
        "models since Opus 4.6 take no assistant message at the end",
        "This model does not support assistant message prefill. The conversation must end with a user message.",
        "aaif-goose/goose#7425, smallmain/vscode-unify-chat-provider#249",
    ),
    "messages.empty": Row(
        "no message is without content",
        "messages.{n}: all messages must have non-empty content except for the optional final assistant message",
        "anthropics/claude-code#6774, pydantic/pydantic-ai#1934",
    ),
    "messages.empty_text": Row(
        "no text block is empty", "messages: text content blocks must be non-empty", "anthropics/claude-code#59812"
    ),
    "messages.block": Row(
        "content is a text or blocks of known types: user and assistant have their own",
        "messages.{n}.content.{m}: Input tag '{kind}' found using 'type' does not match any of the expected tags",
        "Claude API: Messages, body.messages.content",
    ),
    "messages.call_id": Row(
        "a call's id is made of letters, digits, - and _",
        "messages.{n}.content.{m}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        "maximhq/bifrost#5097, tailcallhq/forgecode#1142",
    ),
    "messages.call_twice": Row(
        "ids of calls are unique in a request",
        "messages.{n}.content.{m}: `tool_use` ids must be unique",
        "BerriAI/litellm#23510, NachoSEO/claudegram#12",
    ),
    "messages.unanswered": Row(
        "results of all calls stand at the beginning of the next message; turns of one role in a row are one turn",
        "messages.{n}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. Each "
        "`tool_use` block must have a corresponding `tool_result` block in the next message.",
        "anthropics/claude-code#2697, apify/tester-mcp-client#12",
    ),
    "messages.orphan": Row(
        "a result answers a call of the message before",
        "messages.{n}.content.{m}: unexpected `tool_use_id` found in `tool_result` blocks: {ids}. Each `tool_result` "
        "block must have a corresponding `tool_use` block in the previous message.",
        "anthropics/claude-code#13460",
    ),
    "messages.result_twice": Row(
        "a call has one result",
        "messages.{n}.content.{m}: each tool_use must have a single result. Found multiple `tool_result` blocks with "
        "id: {ids}",
        "vectorize-io/hindsight#4250",
    ),
    "messages.thinking_first": Row(
        "thinking stands before everything else of its message",
        "messages.{n}.content.0: If an assistant message contains any thinking blocks, the first block must be "
        "`thinking` or `redacted_thinking`. Found `{kind}`.",
        "anthropics/claude-code#20691",
    ),
    "messages.thinking_missing": Row(
        "with manual thinking a turn that uses tools begins with it (adaptive thinking does not ask for that)",
        "messages.{n}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{kind}`. When `thinking` "
        "is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of "
        "`tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid "
        "this requirement, disable `thinking`.",
        "mastra-ai/mastra#7799, anomalyco/opencode#3077; Claude API: Adaptive thinking",
    ),
    "messages.signature_missing": Row(
        "thinking is sent back with its signature",
        "messages.{n}.content.{m}.thinking.signature: Field required",
        "WordPress/ai-provider-for-anthropic#27, justlovemaki/AIClient2API#437",
    ),
    "messages.signature": Row(
        "a signature is one that the API gave, with the very text it signed",
        "messages.{n}.content.{m}: Invalid `signature` in `thinking` block",
        "anthropics/claude-code#10627, anthropics/anthropic-sdk-python#1598",
    ),
    "messages.thinking_changed": Row(
        "the newest answer's thinking comes back complete and as it was; leaving out what was redacted is a change",
        "messages.{n}.content.{m}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
        "modified. These blocks must remain as they were in the original response.",
        "anthropics/claude-code#63404; Claude API: Thinking in tool and multi-turn workflows",
    ),
    "messages.window": Row(
        "the prompt fits the window",
        "prompt is too long: {sent} tokens > {limit} maximum",
        "anthropics/claude-code#12186",
    ),
    "messages.window_with_answer": Row(
        "the prompt and max_tokens together fit the window",
        "input length and `max_tokens` exceed context limit: {sent} + {more} > {limit}, decrease input length or "
        "`max_tokens` and try again",
        "continuedev/continue#6080, docker/docker-agent#569",
    ),
    # -- OpenAI Chat ---------------------------------------------------------------------------------------------------
    "chat.none": Row(
        "there is a message",
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        "danny-avila/LibreChat#10408",
        "messages",
        "empty_array",
    ),
    "chat.role": Row(
        "the roles are developer, system, user, assistant, tool and the old function",
        "Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and "
        "'developer'.",
        "OpenAI API: Create chat completion, messages",
        "messages[{n}].role",
        "invalid_value",
    ),
    "chat.content_null": Row(
        "content is required, of an assistant unless it calls",
        "Invalid value for 'content': expected a string, got null.",
        "run-llama/llama_index#17555, vercel/ai#13744",
        "messages.[{n}].content",
    ),
    "chat.content_type": Row(
        "content is a text or a list of parts",
        "Invalid type for 'messages[{n}].content': expected one of a string or array of objects, but got {kind} "
        "instead.",
        "coze-dev/coze-studio#2317",
        "messages[{n}].content",
        "invalid_type",
    ),
    "chat.orphan": Row(
        "a tool message follows an assistant's with calls",
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        "dimagi/open-chat-studio#1659, smarter-sh/smarter#264",
        "messages.[{n}].role",
    ),
    "chat.other_call": Row(
        "a tool message names a call of that assistant's message",
        "Invalid parameter: 'tool_call_id' of '{ids}' not found in 'tool_calls' of previous message.",
        "dapr/dapr-agents#145",
        "messages.[{n}].tool_call_id",
    ),
    "chat.result_twice": Row(
        "a call has one tool message",
        "Invalid parameter: Duplicate value for 'tool_call_id' of '{ids}', in messages[{m}] and messages[{n}].",
        "agno-agi/agno#5116, anomalyco/opencode#1211",
        "messages.[{n}].tool_call_id",
    ),
    "chat.unanswered": Row(
        "tool messages for all calls follow the assistant's message at once",
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        "The following tool_call_ids did not have response messages: {ids}",
        "aliasrobotics/cai#111, BerriAI/litellm#10083",
        "messages.[{n}].role",
    ),
    "chat.no_calls": Row(
        "tool_calls is left out where there is no call",
        "Invalid 'messages[{n}].tool_calls': empty array. Expected an array with minimum length 1, but got an empty "
        "array instead.",
        "danny-avila/LibreChat#10408 (the same of messages), baptisteArno/typebot.io#1205",
        "messages[{n}].tool_calls",
        "empty_array",
    ),
    "chat.call_id": Row(
        "an id of a call has 40 characters at most",
        "Invalid 'messages[{n}].tool_calls[{m}].id': string too long. Expected a string with maximum length 40, but "
        "got a string with length {more} instead.",
        "vercel/ai#8132, camel-ai/camel#2215",
        "messages[{n}].tool_calls[{m}].id",
        "string_above_max_length",
    ),
    "chat.window": Row(
        "the messages and the answer asked for fit the window",
        "This model's maximum context length is {limit} tokens. However, you requested {total} tokens ({sent} in the "
        "messages, {more} in the completion). Please reduce the length of the messages or completion.",
        "Azure/azure-sdk-for-python#40986, AsyncFuncAI/deepwiki-open#144",
        "messages",
        "context_length_exceeded",
    ),
    # -- OpenAI Responses ----------------------------------------------------------------------------------------------
    "responses.none": Row(
        "there is input",
        "Missing required parameter: 'input'.",
        "OpenAI API: Create a response",
        "input",
        "missing_required_parameter",
    ),
    "responses.role": Row(
        "the roles of a message are user, assistant, system and developer",
        "Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'.",
        "OpenAI API: Create a response, input",
        "input[{n}].role",
        "invalid_value",
    ),
    "responses.content": Row(
        "an assistant's text is output_text, anybody else's input_text",
        "Invalid value: '{kind}'. Supported values are: {others}.",
        "jeremychone/rust-genai#119, BerriAI/litellm#17507",
        "input[{n}].content[{m}]",
        "invalid_value",
    ),
    "responses.id": Row(
        "an item's id begins as its type asks: msg, fc, rs",
        "Invalid 'input[{n}].id': '{ids}'. Expected an ID that begins with '{kind}'.",
        "Wei-Shaw/sub2api#3785, nodetool-ai/nodetool#4252",
        "input[{n}].id",
        "invalid_value",
    ),
    "responses.twice": Row(
        "an item stands in the input once",
        "Duplicate item found with id {ids}. Remove duplicate items from your input and try again.",
        "vercel/ai#13307",
        "input",
    ),
    "responses.orphan": Row(
        "an output answers a call before it",
        "No tool call found for function call output with call_id {ids}.",
        "microsoft/vscode#320060, continuedev/continue#10092",
        "input",
    ),
    "responses.unanswered": Row(
        "a call has its output",
        "No tool output found for function call {ids}.",
        "anomalyco/opencode#16717, jlcodes99/cockpit-tools#1234",
        "input",
    ),
    "responses.reasoning_alone": Row(
        "a reasoning item is followed by the item that it led to",
        "Item '{ids}' of type 'reasoning' was provided without its required following item.",
        "continuedev/continue#8933, openai/openai-agents-js#326",
        "input",
    ),
    "responses.reasoning_missing": Row(
        "an item that came with reasoning, named by its id, is sent with it",
        "Item '{ids}' of type 'function_call' was provided without its required 'reasoning' item: '{more}'.",
        "cline/cline#12242, mastra-ai/mastra#8738",
        "input",
    ),
    "responses.encrypted": Row(
        "encrypted reasoning comes back as it was given",
        "The encrypted content {ids} could not be verified.",
        "openai/codex#8119, openai/codex#8145",
        None,
        "invalid_encrypted_content",
    ),
    "responses.unknown": Row(
        "a reasoning item without its content is one that the server has kept",
        "Item with id '{ids}' not found. Items are not persisted when `store` is set to false. Try again with `store` "
        "set to true, or remove this item from your input.",
        "vercel/ai#7543, can1357/oh-my-pi#41",
        "input",
        None,
        404,
    ),
    "responses.window": Row(
        "the input fits the window",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "VectorlyApp/bluebox#66",
        "input",
        "context_length_exceeded",
    ),
    # -- Google --------------------------------------------------------------------------------------------------------
    "generate.none": Row(
        "contents is required",
        "* GenerateContentRequest.contents: contents is not specified\n",
        "ikechan8370/chatgpt-plugin#733, googleapis/js-genai#912",
    ),
    "generate.role": Row(
        "the roles are user and model", "Please use a valid role: user, model.", "Gemini API: Content, role"
    ),
    "generate.empty": Row(
        "a content has parts",
        "* GenerateContentRequest.contents[{n}].parts: contents.parts must not be empty.\n",
        "egoist/chatwise-releases#250, vercel/ai#3775",
    ),
    "generate.part": Row(
        "a part has its data: a text, a call, a response, a file",
        "* GenerateContentRequest.contents[{n}].parts[{m}].data: required oneof field 'data' must have one initialized "
        "field\n",
        "boldsoftware/sketch#68, router-for-me/CLIProxyAPI#1292",
    ),
    "generate.call_turn": Row(
        "a turn with calls follows a user's turn or one with responses",
        "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
        "google-gemini/gemini-cli#11814, continuedev/continue#11164",
    ),
    "generate.response_turn": Row(
        "a turn with responses follows one with calls",
        "Please ensure that function response turn comes immediately after a function call turn.",
        "langchain-ai/langchain#27799, BerriAI/litellm#26755",
    ),
    "generate.count": Row(
        "each call has a response, in the turn after it",
        "Please ensure that the number of function response parts is equal to the number of function call parts of "
        "the function call turn.",
        "google-gemini/gemini-cli#3814, google-gemini/gemini-cli#16543",
    ),
    "generate.last": Row(
        "the conversation ends with a user's turn or responses",
        "Please ensure that multiturn requests ends with a user role or a function response.",
        "songquanpeng/one-api#836, crewAIInc/crewAI#6973",
    ),
    "generate.thought_missing": Row(
        "from Gemini 3 on, the first call of each step since the user's last words has its thoughtSignature",
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
        "correctly, and missing thought_signature may lead to degraded model performance. Additional data, function "
        "call `default_api:{ids}` , position {n}. Please refer to "
        "https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
        "lbjlaq/Antigravity-Manager#938, Gemini API: Thought signatures",
    ),
    "generate.thought": Row(
        "a thoughtSignature is one that the API gave, in the part it was given with",
        "Corrupted thought signature.",
        "google-gemini/gemini-cli#13467, charmbracelet/crush#1698",
    ),
    "generate.window": Row(
        "the input is within the model's limit",
        "The input token count ({sent}) exceeds the maximum number of tokens allowed ({limit}).",
        "google-gemini/gemini-cli#6678",
    ),
}
