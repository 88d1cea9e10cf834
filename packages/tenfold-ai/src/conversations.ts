/** Asks a gateway what a model should be sent of a conversation, and remembers what the next question needs. */

import { fromChat, toChat, type ChatMessage, type PromptMessage, type Sent } from './chat.js'
import { readRefusal, type Refusal } from './refusal.js'

export interface TenfoldOptions {
  /** The address of the gateway (`tenfold serve`). Default: `TENFOLD_GATEWAY_URL`, else `http://127.0.0.1:8787`. */
  readonly url?: string | undefined
  /** The key of the gateway, if it needs one. Default: `TENFOLD_GATEWAY_KEY`. */
  readonly key?: string | undefined
  /** The model's context window in tokens. Default: the gateway's `--window`, else what it knows of the model. */
  readonly window?: number | undefined
  /** How many milliseconds to wait for the gateway. Default: 30000. */
  readonly timeout?: number | undefined
  /**
   * Called when the gateway gives no view, so that the prompt goes out as it is. Default: `console.warn`, once.
   * If it throws, the model is not called.
   */
  readonly onError?: ((error: TenfoldError) => void) | undefined
  /** Called with the size of each prompt that goes out, as the gateway measures it. */
  readonly onView?: ((view: ViewReport) => void) | undefined
}

/** What became of a prompt. The tokens are those of the request as the provider counts. */
export interface ViewReport {
  readonly session: string
  readonly model: string
  /** With nothing hidden. */
  readonly tokensBefore: number
  /** As it goes out. */
  readonly tokensAfter: number
}

/** Why the gateway gave no view. `status` is that of its answer, if it answered. */
export class TenfoldError extends Error {
  override readonly name = 'TenfoldError'
  readonly status: number | undefined
  readonly session: string

  constructor(message: string, session: string, options: { status?: number | undefined; cause?: unknown } = {}) {
    super(message, { cause: options.cause })
    this.status = options.status
    this.session = session
  }
}

/** A call of a model that is about to be made. */
export interface ModelCall<M extends PromptMessage> {
  readonly prompt: readonly M[]
  readonly model: string
  /** The host's id of the conversation, "" if there is none: the gateway then knows it by its first message. */
  readonly session: string
  /** Tools in the form of OpenAI Chat. */
  readonly tools?: readonly object[] | undefined
  readonly maxOutputTokens?: number | undefined
  readonly responseFormat?: object | undefined
  /** What the provider reported for the previous call of the conversation. Default: what `noteUsage` was told. */
  readonly usage?: unknown
  readonly signal?: AbortSignal | undefined
}

/** What to send for a call. `tokens` is how large it is, `undefined` if the gateway gave no view. */
export interface Fitted<M extends PromptMessage> {
  readonly call: ModelCall<M>
  readonly prompt: readonly M[]
  readonly tokens?: number | undefined
}

interface Counted {
  readonly length: number
  readonly last: string
  readonly usage: object
}

const DEFAULT_URL = 'http://127.0.0.1:8787'
const DEFAULT_TIMEOUT = 30_000
const MAX_CONVERSATIONS = 500
const MAX_KEY = 2_000
/** What the gateway answers if a refusal is about something else, and if nothing makes the prompt shorter. */
const NOTHING_SHORTER = [422, 409]
const TOO_MANY_REQUESTS = 429

export class Conversations {
  readonly #options: TenfoldOptions
  readonly #url: string
  readonly #key: string | undefined
  readonly #counted = new Map<string, Counted>()
  #hasWarned = false

  constructor(options: TenfoldOptions) {
    this.#options = options
    this.#url = (options.url || readVariable('TENFOLD_GATEWAY_URL') || DEFAULT_URL).replace(/\/+$/, '')
    this.#key = options.key || readVariable('TENFOLD_GATEWAY_KEY')
  }

  /** Returns what to send for a call: the prompt as it is if it fits, or if the gateway gives no view. */
  async fit<M extends PromptMessage>(call: ModelCall<M>): Promise<Fitted<M>> {
    return (await this.#ask(call)) ?? { call, prompt: call.prompt }
  }

  /**
   * Returns something shorter to send after the provider has refused a call with this error.
   *
   * `undefined` if the gateway reads anything else in the error than that the request was too long, and if it does
   * not get shorter.
   */
  async shrink<M extends PromptMessage>(fitted: Fitted<M>, error: unknown): Promise<Fitted<M> | undefined> {
    const { call, prompt } = fitted
    const refused = readRefusal(error)
    if (!refused || refused.status === TOO_MANY_REQUESTS || call.signal?.aborted) return undefined
    const again = await this.#ask(call, refused)
    const isSame = again?.prompt.length === prompt.length && again.prompt.every((each, at) => each === prompt[at])
    return isSame ? undefined : again
  }

  /** Remembers what the provider reported for a call. The next question about this conversation tells it. */
  noteUsage<M extends PromptMessage>(call: ModelCall<M>, usage: unknown): void {
    const read = readUsage(usage)
    const { chat } = toChat(call.prompt)
    if (!read || !chat.length) return
    const key = getKey(call.session, chat)
    this.#counted.delete(key)
    this.#counted.set(key, { length: chat.length, last: JSON.stringify(chat.at(-1)), usage: read })
    const [oldest] = this.#counted.keys()
    if (this.#counted.size > MAX_CONVERSATIONS && oldest !== undefined) this.#counted.delete(oldest)
  }

  #findUsage(call: ModelCall<PromptMessage>, chat: readonly ChatMessage[]): object | undefined {
    if (call.usage !== undefined) return readUsage(call.usage)
    const counted = this.#counted.get(getKey(call.session, chat))
    if (!counted || chat.length <= counted.length) return undefined
    return JSON.stringify(chat[counted.length - 1]) === counted.last ? counted.usage : undefined
  }

  async #ask<M extends PromptMessage>(
    call: ModelCall<M>,
    refused?: Refusal,
  ): Promise<Fitted<M> | undefined> {
    const { session, model, signal } = call
    try {
      const sent = toChat(call.prompt)
      const usage = refused ? undefined : this.#findUsage(call, sent.chat)
      const view = await this.#post(
        {
          wire: 'openai-chat',
          session,
          model,
          window: this.#options.window,
          usage: usage && { usage },
          refused,
          tools: call.tools?.length ? call.tools : undefined,
          max_tokens: call.maxOutputTokens,
          response_format: call.responseFormat,
          messages: sent.chat,
        },
        session,
        signal,
      )
      const fitted = { call, prompt: fromChat(view.messages, sent as Sent<M>), tokens: view.tokens_after }
      this.#options.onView?.({ session, model, tokensBefore: view.tokens_before, tokensAfter: view.tokens_after })
      return fitted
    } catch (error) {
      const isTold = refused && error instanceof TenfoldError && NOTHING_SHORTER.includes(error.status ?? 0)
      if (!signal?.aborted && !isTold) this.#report(this.#explain(error, session))
      return undefined
    }
  }

  async #post(body: object, session: string, signal: AbortSignal | undefined): Promise<View> {
    const timeout = AbortSignal.timeout(this.#options.timeout ?? DEFAULT_TIMEOUT)
    const answer = await fetch(`${this.#url}/tenfold/view`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(this.#key ? { 'x-tenfold-key': this.#key } : {}) },
      body: JSON.stringify(body),
      signal: signal ? AbortSignal.any([timeout, signal]) : timeout,
    })
    const view = (await answer.json().catch((error: unknown) => {
      if (answer.ok) throw error
    })) as (View & { error?: { message?: string } }) | undefined
    if (!answer.ok || !Array.isArray(view?.messages) || !view.messages.length) {
      const why = view?.error?.message ?? `it answered ${answer.status} without a view`
      throw new TenfoldError(why, session, { status: answer.status })
    }
    return view
  }

  #explain(error: unknown, session: string): TenfoldError {
    const { cause, code, message, name } = error as Error & { code?: string }
    const late = `it did not answer within ${this.#options.timeout ?? DEFAULT_TIMEOUT} ms`
    const why =
      name === 'TimeoutError' ? late : ((cause as { code?: string })?.code ?? message ?? code ?? String(error))
    const status = error instanceof TenfoldError ? error.status : undefined
    const text = `tenfold: the prompt goes out as it is, since ${this.#url} gave no view of it: ${why}`
    return new TenfoldError(text, session, { status, cause: error })
  }

  #report(error: TenfoldError): void {
    if (this.#options.onError) this.#options.onError(error)
    else if (!this.#hasWarned) console.warn(error.message)
    this.#hasWarned = true
  }
}

interface View {
  readonly messages: readonly ChatMessage[]
  readonly tokens_before: number
  readonly tokens_after: number
}

/** Where the newest report of a conversation is kept: sub-agents may share the id of their caller's. */
function getKey(session: string, chat: readonly ChatMessage[]): string {
  const opening = chat.find((message) => message.role !== 'system') ?? chat[0]
  return `${session}\0${JSON.stringify(opening).slice(0, MAX_KEY)}`
}

/** Reads a usage in any form of the AI SDK, as OpenAI Chat writes it. */
function readUsage(usage: any): object | undefined {
  const input = readCount(usage?.inputTokens, 'total')
  if (!input) return undefined
  const cached = readCount(
    usage.inputTokens?.cacheRead ?? usage.inputTokenDetails?.cacheReadTokens ?? usage.cachedInputTokens,
  )
  return {
    prompt_tokens: input,
    completion_tokens: readCount(usage.outputTokens, 'total') ?? 0,
    ...(cached ? { prompt_tokens_details: { cached_tokens: cached } } : {}),
  }
}

function readCount(value: any, field = ''): number | undefined {
  const count = typeof value === 'object' && value !== null ? value[field] : value
  return typeof count === 'number' && Number.isFinite(count) && count >= 0 ? count : undefined
}

function readVariable(name: string): string | undefined {
  return typeof process === 'undefined' ? undefined : process.env?.[name]
}
