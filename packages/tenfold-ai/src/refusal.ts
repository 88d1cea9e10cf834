/** Reads what a provider said when it refused a call. Whether it was too long, the gateway tells: it has the table. */

const MAX_DEPTH = 5
const MAX_LENGTH = 20_000

/** How a provider refused a call: all that the error says, and its HTTP status if it has one. */
export interface Refusal {
  readonly status?: number | undefined
  readonly text: string
}

/** Reads the error of a call, whatever it is wrapped in. `undefined` if it says nothing. */
export function readRefusal(error: unknown): Refusal | undefined {
  const texts: string[] = []
  const status = collectTexts(error, texts, 0)
  const text = [...new Set(texts)].join('\n').slice(0, MAX_LENGTH)
  return text || status !== undefined ? { status, text } : undefined
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
