// Written by `tenfold install`; `tenfold install opencode --uninstall` removes it.
//
// Asks the gateway on this machine (`tenfold serve`) what the model should be sent of the conversation, before each
// call. Whatever goes wrong, the messages stay as they are, and the reason is logged once. It is written without type
// syntax, so that any runtime can load it as it stands.
//
// TENFOLD_GATEWAY_URL is the gateway's address (default http://127.0.0.1:8787), TENFOLD_GATEWAY_KEY its key, if any.

const TIMEOUT_MS = 30_000;
const NEWS_TOKENS = 1_000; // how many more tokens have to be hidden before that is logged again

// What a finished tool call gave, as opencode itself sends it to the model.
function readResult(state) {
  if (state?.time?.compacted) return "[Old tool result content cleared]";
  return state?.output ?? state?.error ?? "[Tool execution was interrupted]";
}

// One message of opencode as messages of OpenAI Chat: an answer with its calls, then their results.
function toChat(message) {
  const isText = (part) => part.type === "text" && !part.ignored && part.text;
  const texts = message.parts.filter(isText).map((part) => part.text);
  if (message.info.role === "user") {
    const files = message.parts.filter((part) => part.type === "file");
    const names = files.map((part) => `[file ${part.filename ?? part.mime}]`);
    return [{ role: "user", content: [...texts, ...names].join("\n") || "(no text)" }];
  }
  const tools = message.parts.filter((part) => part.type === "tool");
  const calls = tools.map((part) => ({
    id: part.callID,
    type: "function",
    function: { name: part.tool, arguments: JSON.stringify(part.state?.input ?? {}) },
  }));
  const content = texts.join("\n");
  if (!content && !calls.length) return [];
  const answer = { role: "assistant", content: content || null, ...(calls.length ? { tool_calls: calls } : {}) };
  const toResult = (part) => ({ role: "tool", tool_call_id: part.callID, content: readResult(part.state) });
  return [answer, ...tools.map(toResult)];
}

function readText(content) {
  if (typeof content === "string") return content;
  return Array.isArray(content) ? content.map((part) => part?.text ?? "").join("\n") : "";
}

// The user's words, or a summary, as a message of opencode that was never stored.
function buildUserMessage(text, like, number) {
  const id = `msg_tenfold_${number}`;
  const info = { ...like.info, id, role: "user", time: { ...like.info.time } };
  const place = { id: `prt_tenfold_${number}`, sessionID: info.sessionID, messageID: id };
  return { info, parts: [{ ...place, type: "text", text, synthetic: true }] };
}

// An answer as it is shown in the view: without the calls that are gone, and with results that were shortened.
function rebuildAnswer(original, answer, results) {
  const before = toChat(original);
  const isSame = (chat) => before.some((each) => JSON.stringify(each) === JSON.stringify(chat));
  if (isSame(answer) && [...results.values()].every(isSame) && results.size === before.length - 1) return original;
  const hasText = readText(answer.content) === readText(before[0].content);
  const calls = new Map((answer.tool_calls ?? []).map((call) => [call.id, call]));
  let text = readText(answer.content);
  const parts = [];
  for (const part of original.parts) {
    if (part.type === "text" && !hasText) {
      if (text) parts.push({ ...part, text });
      text = "";
    } else if (part.type === "tool") {
      const call = calls.get(part.callID);
      if (!call) continue;
      const input = JSON.parse(call.function.arguments);
      const output = readText(results.get(part.callID)?.content);
      const isFailed = part.state?.status === "error";
      const time = { ...part.state?.time, compacted: undefined };
      const result = isFailed ? { error: output } : { output, status: "completed", attachments: undefined };
      const isKept = readResult(part.state) === output;
      parts.push({ ...part, state: { ...part.state, input, ...(isKept ? {} : { ...result, time }) } });
    } else {
      parts.push(part);
    }
  }
  return { ...original, parts };
}

// The view as messages of opencode. Those that stay are the objects that came in.
function fromChat(view, messages) {
  const byUser = new Map();
  const byCall = new Map();
  const byAnswer = new Map();
  for (const message of messages) {
    const [first] = toChat(message);
    if (!first) continue;
    const text = JSON.stringify(first);
    const known = first.role === "user" ? byUser : byAnswer;
    known.set(text, [...(known.get(text) ?? []), message]);
    for (const call of first.tool_calls ?? []) byCall.set(call.id, message);
  }
  const like = messages.findLast((message) => message.info.role === "user");
  if (!like) throw new Error("the conversation has no message of the user");
  const results = new Map(view.filter((chat) => chat.role === "tool").map((chat) => [chat.tool_call_id, chat]));
  const out = [];
  for (const chat of view) {
    if (chat.role === "tool") continue;
    const text = JSON.stringify(chat);
    const known = chat.role === "assistant" ? byAnswer : byUser;
    const kept = known.get(text)?.shift();
    const called = chat.tool_calls?.length ? byCall.get(chat.tool_calls[0].id) : undefined;
    const original = called ?? kept;
    if (chat.role !== "assistant") out.push(kept ?? buildUserMessage(readText(chat.content), like, out.length));
    else if (!original) throw new Error("the view has an answer that the conversation does not have");
    else {
      const own = (chat.tool_calls ?? []).map((call) => call.id).filter((id) => results.has(id));
      out.push(rebuildAnswer(original, chat, new Map(own.map((id) => [id, results.get(id)]))));
    }
  }
  return out;
}

// What the provider counted for the newest answer: it holds the system prompt and the tools, which no hook shows.
function findUsage(messages) {
  const isCounted = (message) => message.info.role === "assistant" && message.info.tokens?.output;
  const tokens = messages.findLast(isCounted)?.info.tokens;
  if (!tokens) return undefined;
  const read = tokens.input + (tokens.cache?.read ?? 0) + (tokens.cache?.write ?? 0);
  return read > 0 ? { usage: { prompt_tokens: read, completion_tokens: tokens.output } } : undefined;
}

export const Tenfold = async ({ client }) => {
  const url = (process.env.TENFOLD_GATEWAY_URL || "http://127.0.0.1:8787").replace(/\/+$/, "");
  const key = process.env.TENFOLD_GATEWAY_KEY;
  const windows = new Map();
  let hidden = 0;
  let shown = "";

  async function report(message, level) {
    if (message === shown) return;
    shown = message;
    try {
      await client.app.log({ body: { service: "tenfold", level, message } });
    } catch {
      console.error(`tenfold: ${message}`);
    }
  }

  async function findWindow(model) {
    const name = `${model?.providerID}/${model?.modelID}`;
    if (!windows.size) {
      const found = await client.config.providers();
      for (const provider of found.data?.providers ?? []) {
        for (const [id, each] of Object.entries(provider.models ?? {})) {
          if (each.limit?.context > 0) windows.set(`${provider.id}/${id}`, each.limit.context);
        }
      }
    }
    return windows.get(name);
  }

  async function requestView(messages) {
    const info = messages.findLast((message) => message.info.role === "user")?.info;
    const window = await findWindow(info?.model);
    const [session, model] = [info?.sessionID ?? "", info?.model?.modelID ?? ""];
    const headers = { "content-type": "application/json", ...(key ? { "x-tenfold-key": key } : {}) };
    const usage = findUsage(messages);
    const chat = messages.flatMap(toChat);
    const body = JSON.stringify({ wire: "openai-chat", session, model, window, usage, messages: chat });
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const answer = await fetch(`${url}/tenfold/view`, { method: "POST", headers, body, signal });
    const view = await answer.json();
    if (!answer.ok || !Array.isArray(view.messages) || !view.messages.length) {
      throw new Error(view?.error?.message ?? `the gateway answered ${answer.status}`);
    }
    return view;
  }

  return {
    "experimental.chat.messages.transform": async (_input, output) => {
      try {
        const view = await requestView(output.messages);
        const saved = view.tokens_before - view.tokens_after;
        if (saved <= 0) return;
        output.messages.splice(0, output.messages.length, ...fromChat(view.messages, output.messages));
        if (saved > hidden + NEWS_TOKENS) {
          hidden = saved;
          await report(`${saved} tokens of this conversation are hidden from the model`, "info");
        }
      } catch (error) {
        const why = error?.cause?.code ?? error?.code ?? error?.message ?? String(error);
        await report(`the conversation is sent as it is, since ${url} gave no view of it: ${why}`, "warn");
      }
    },
  };
};
