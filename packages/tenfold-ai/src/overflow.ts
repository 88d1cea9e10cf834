/**
 * Recognizes the errors with which providers refuse a request as too long, and reads the limit that they name.
 *
 * The rows are those of `src/tenfold/models/overflow.py` and of the wires' profiles, where each has its evidence.
 * `<n>` stands for a number, `<limit>` for the most tokens a request may have.
 */

const LOOK_ALIKES = [
  // Limits of the account, or of the answer: a shorter prompt does not help.
  'rate.?limit|too many requests',
  'overloaded',
  'maximum allowed number of output tokens',
  'tokens per min|\\bTPM\\b',
  'supports at most <n> completion tokens',
  'call_id\\W{1,3}string too long',
  'quota',
  '(?:^\\W*|(?:http|error|code|status)\\W{0,5})429\\b',
  'tokens per day|throttl|too many tokens, please wait',
  'maximum tokens you requested exceeds? the model limit',
  'invalid max_tokens value',
  'max_tokens\\W{1,3}must be less than or equal',
  'max_(?:completion_)?tokens\\W.{0,80}expected a value <=',
  '\\b400\\b.{0,20}\\(no body\\)',
]

const OVERFLOWS = [
  'prompt is too long(?:: <n> tokens > <limit>)?',
  'exceed context limit(?:: <n> \\+ <n> > <limit>)?',
  'request_too_large|request exceeds the maximum size',
  'request size exceeds model context window',
  'model_context_window_exceeded',
  'context[_ ]length[_ ]exceeded',
  'maximum context length(?:(?: is| of|:) <limit>)?',
  'your messages resulted in <n> tokens',
  'input tokens exceed the configured limit of <limit> tokens',
  'exceed(?:s|ed)? (?:the |this model.?s )?(?:maximum )?context (?:window|length|size)',
  '(?:content|input)\\W{1,3}string too long',
  'input token count(?: \\(<n>\\))? exceeds the maximum number of tokens allowed(?: \\(<limit>\\))?',
  'you requested <n> tokens \\(<n> in (?:the messages|your prompt)',
  'you requested about <n> tokens \\(<n> of text input',
  'maximum context length is <n> tokens.{0,80}(?:request has|contains at least) <n> input tokens',
  'context length is <n> tokens\\W+however,? you requested <n> tokens\\.',
  'length <n>\\) is longer than the maximum model length of <limit>',
  'length <n>\\) is too long to fit into the model \\(context length <limit>',
  'maximum context length of <n> tokens.{0,60}: <n> tokens from the input messages',
  '\\(<n> tokens\\) is longer than the model.{1,3} context length \\(<limit>',
  'length \\(<n> tokens\\) exceeds the maximum allowed length \\(<limit>',
  'reduce the length of the (?:messages|prompt|input)',
  'current length is <n> while limit is <limit>',
  '(?:^\\W*|(?:http|error|code|status)\\W{0,5})413\\b',
  '(?:request entity|payload|content) too large',
  'maximum prompt length is <limit>',
  'prompt contains <n> tokens.{0,40}too large for model with <limit> maximum context length',
  'input is too long',
  'too many input tokens(?:\\. max input tokens: <limit>)?',
  'expected maxLength: <n>, actual: <n>',
  'too many total text bytes',
  'prompt too long; exceeded max context length',
  'input length exceeds the context length',
  'exceeds the available context size(?: \\(<limit> tokens\\))?',
  'exceed_context_size_error(?:.{0,80}\\bn_ctx\\W{1,4}<limit>)?',
  'tokens(?: \\(<n>\\))? exceed context window of <limit>',
  'greater than the context length(?: \\(n_keep: <n>\\s?>= n_ctx: <limit>)?',
  'keep the first <n> tokens when context the overflows.{0,60}context length of only <limit> tokens',
  'prompt tokens \\(<n>\\) exceeds context size \\(<limit>\\)',
  'prompt token count of <n> exceeds the limit of <limit>',
  'token[_ ]limit[_ ]exceeded',
  'tokens_limit_reached',
  'request body too large(?:.{0,80}max size: <limit> tokens)?',
  'context window exceeds limit',
  'exceeded model token limit(?:: <limit>)?',
  'tokens in request more than max tokens allowed',
  'prompt exceeds max length',
  'tokens of image and text exceed max message tokens',
  'input length <n> exceeds the maximum length <limit>',
  'range of input length should be \\[1, <limit>\\]',
  '\\(<n>\\) ha(?:s|ve) exceeded max_prompt_tokens \\(<limit>\\)',
  'prompt is too long: <n>, model maximum context length: <limit>',
  'must be <= <limit>\\. given: <n> .?inputs',
  'must have less than <limit> tokens\\. given: <n>',
  'too many tokens(?:.{0,80}cannot exceed <limit>)?',
  'context ?window ?exceeded',
]

/** Between which numbers of tokens a named limit may be a window. */
const MIN_LIMIT = 1_000
const MAX_LIMIT = 100_000_000
const NUMBER = '\\d[\\d,]{0,15}'
const MAX_DEPTH = 5
const MAX_LENGTH = 20_000

const build = (row: string): RegExp =>
  new RegExp(row.replaceAll('<n>', NUMBER).replaceAll('<limit>', `(?<limit>${NUMBER})`), 'gi')
const lookAlikes = LOOK_ALIKES.map(build)
const overflows = OVERFLOWS.map(build)

/** A refusal as too long. `limit` is the most tokens that the provider says it takes, if it does. */
export interface Overflow {
  readonly limit?: number
}

/** Reads an error of a provider. Returns `undefined` if it says anything else than that the request was too long. */
export function readOverflow(error: unknown): Overflow | undefined {
  const found: string[] = []
  const status = collectTexts(error, found, 0)
  const texts = found.map((text) => text.slice(0, MAX_LENGTH).split(/\s+/).join(' ').trim())
  const matches = (pattern: RegExp) => texts.some((text) => text.search(pattern) >= 0)
  if (status === 429 || lookAlikes.some(matches)) return undefined
  if (status !== 413 && !overflows.some(matches)) return undefined
  const limits = overflows
    .flatMap((pattern) => texts.flatMap((text) => [...text.matchAll(pattern)]))
    .map((match) => Number((match.groups?.limit ?? '').replaceAll(',', '')))
    .filter((limit) => limit >= MIN_LIMIT && limit <= MAX_LIMIT)
  return limits.length ? { limit: Math.min(...limits) } : {}
}

/** Collects what an error and its causes say. Returns the HTTP status, if one of them has it. */
function collectTexts(error: unknown, texts: string[], depth: number): number | undefined {
  if (typeof error === 'string') texts.push(error)
  if (typeof error !== 'object' || error === null || depth > MAX_DEPTH) return undefined
  const { message, code, responseBody, statusCode, status, ...others } = error as Record<string, unknown>
  for (const text of [(error as Error).message ?? message, code, responseBody])
    if (typeof text === 'string') texts.push(text)
  const found = [statusCode, status].find((value) => typeof value === 'number') as number | undefined
  const inner = [(error as Error).cause, others.error, others.lastError, others.response]
  const below = inner.map((each) => collectTexts(each, texts, depth + 1))
  return found ?? below.find((each) => each !== undefined)
}
