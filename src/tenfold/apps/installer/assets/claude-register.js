// Written by `tenfold install`; `tenfold install claude-code --uninstall` removes it.
//
// Answers Claude Code's function hook `session.compact`: Tenfold says which rows of the conversation stay, and gives new
// ones for what it cut. Whatever goes wrong, and whenever there is nothing to answer, Claude Code compacts by itself. An
// older Claude Code does not load this file.

const COMMAND = ["TENFOLD_COMMAND"];
const TIMEOUT_MS = 60_000;

async function requestRows($, e) {
  const { transcriptPath } = await $.session.info();
  const rows = e.messages.map(({ role, text, toolUses, toolResults }) => ({
    role,
    text,
    toolUses: toolUses.map(({ tool_use_id, tool, input }) => ({ tool_use_id, tool, input })),
    toolResults: (toolResults ?? []).map(({ tool_use_id, text, isError }) => ({ tool_use_id, text, isError: !!isError })),
  }));
  const event = {
    hook_event_name: "session.compact",
    session_id: await $.session.id(),
    transcript_path: transcriptPath,
    rows,
  };
  const done = await $.process.run(COMMAND, { stdin: JSON.stringify(event), timeoutMs: TIMEOUT_MS });
  if (done.exitCode !== 0) throw new Error(done.stderr);
  return JSON.parse(done.stdout);
}

// The new list: a number is a row that stays as it is, everything else a row of its own.
function placeRows(answer, messages) {
  const placed = (answer.rows ?? []).map((row) => (typeof row === "number" ? messages[row] : row));
  if (!placed.every(Boolean)) throw new Error("the answer names a row that is not there");
  return placed;
}

export function register(on) {
  on("session.compact", async ($, e, next) => {
    let answer = {};
    let messages = [];
    try {
      // the transcript of a subagent is another one, which is not stored
      if (!e.agentId) answer = await requestRows($, e);
      messages = placeRows(answer, e.messages);
    } catch {
      messages = []; // after this, PreCompact runs the same command and shows what is wrong
    }
    if (!messages.length) return next(e);
    return { messages, tokensBefore: answer.tokensBefore, tokensAfter: answer.tokensAfter };
  }).catch(($, e, next) => next(e));
}
