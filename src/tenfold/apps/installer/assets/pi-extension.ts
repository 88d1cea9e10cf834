// Written by `tenfold install`; `tenfold install pi --uninstall` removes it.
//
// Asks the gateway on this machine (`tenfold serve`) what the model should be sent of the conversation, before each
// call. Whatever goes wrong, the request stays as it is, and the reason is shown once. It is written without type
// syntax, so that any Node.js can load it as it stands.
//
// TENFOLD_GATEWAY_URL is the gateway's address (default http://127.0.0.1:8787), TENFOLD_GATEWAY_KEY its key, if any.

const TIMEOUT_MS = 30_000;
const NEWS_TOKENS = 1_000; // how many more tokens have to be hidden before that is told again
const WIRES = {
  "openai-completions": ["openai-chat", "messages"],
  "openai-responses": ["openai-responses", "input"],
  "anthropic-messages": ["anthropic", "messages"],
  "google-generative-ai": ["gemini", "contents"],
};

export default function tenfold(pi) {
  const url = (process.env.TENFOLD_GATEWAY_URL || "http://127.0.0.1:8787").replace(/\/+$/, "");
  const key = process.env.TENFOLD_GATEWAY_KEY;
  let shown = "";
  let hidden = 0;
  let usage;

  function report(ctx, text, level) {
    if (text === shown) return;
    shown = text;
    if (ctx?.hasUI) ctx.ui.notify(text, level);
    else console.error(text);
  }

  pi.on("session_start", () => {
    hidden = 0;
    usage = undefined;
  });

  pi.on("message_end", (event) => {
    const counted = event.message?.role === "assistant" ? event.message.usage : undefined;
    if (!counted) return;
    const read = (counted.input ?? 0) + (counted.cacheRead ?? 0) + (counted.cacheWrite ?? 0);
    usage = { usage: { prompt_tokens: read, completion_tokens: counted.output ?? 0 } };
  });

  pi.on("before_provider_request", async (event, ctx) => {
    try {
      const [wire, field] = WIRES[ctx?.model?.api] ?? [];
      const payload = event.payload;
      if (!wire || !Array.isArray(payload?.[field])) return undefined;
      const { [field]: messages, ...others } = payload;
      const window = ctx.model.contextWindow > 0 ? ctx.model.contextWindow : undefined;
      const session = ctx.sessionManager?.getSessionId?.() ?? "";
      const headers = { "content-type": "application/json", ...(key ? { "x-tenfold-key": key } : {}) };
      const body = JSON.stringify({ ...others, model: ctx.model.id, wire, session, window, usage, messages });
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const answer = await fetch(`${url}/tenfold/view`, { method: "POST", headers, body, signal });
      const view = await answer.json();
      if (!answer.ok || !Array.isArray(view.messages) || !view.messages.length) {
        throw new Error(view?.error?.message ?? `the gateway answered ${answer.status}`);
      }
      const saved = view.tokens_before - view.tokens_after;
      if (saved > hidden + NEWS_TOKENS) {
        hidden = saved;
        report(ctx, `tenfold: ${saved} tokens of this conversation are hidden from the model`, "info");
      }
      return { ...payload, ...view.changed, [field]: view.messages };
    } catch (error) {
      const why = error?.cause?.code ?? error?.message ?? String(error);
      report(ctx, `tenfold: the conversation is sent as it is, since ${url} gave no view of it: ${why}`, "warning");
      return undefined;
    }
  });
}
