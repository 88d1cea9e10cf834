/** For the Vercel AI SDK: a middleware for any model, and a `prepareStep` where the model cannot be wrapped. */

import type { LanguageModelMiddleware, ModelMessage } from 'ai'

import type { PromptMessage } from './chat.js'
import { Conversations, type Fitted, type TenfoldOptions } from './conversations.js'

type CallParams = Parameters<NonNullable<LanguageModelMiddleware['transformParams']>>[0]['params']
type Message = CallParams['prompt'][number]
type StreamResult = Awaited<ReturnType<NonNullable<LanguageModelMiddleware['wrapStream']>>>
type StreamPart = StreamResult['stream'] extends ReadableStream<infer P> ? P : never

export interface MiddlewareOptions extends TenfoldOptions {
  /**
   * Your id of the conversation, or a function that finds it in the parameters of a call. The id in
   * `providerOptions.tenfold.session` of a call comes first. Without one, a conversation is known by its first message.
   */
  readonly session?: string | ((params: CallParams) => string | undefined) | undefined
}

/**
 * Returns a middleware that sends what the gateway says in place of a prompt that is too long.
 *
 *     const model = wrapLanguageModel({ model: openai('gpt-5'), middleware: tenfoldMiddleware({ session: 't-17' }) })
 *
 * What the program keeps of the conversation stays whole. Tools and the limit of the answer are counted, the provider's
 * usage is reported back, and a call that the provider refuses as too long is made once more with a shorter prompt.
 */
export function tenfoldMiddleware(options: MiddlewareOptions = {}): LanguageModelMiddleware {
  const conversations = new Conversations(options)
  const sent = new WeakMap<CallParams, Fitted<Message>>()

  return {
    specificationVersion: 'v4',

    async transformParams({ params, model }) {
      const fitted = await conversations.fit<Message>({
        prompt: params.prompt,
        model: model.modelId,
        session: findSession(params, options.session),
        tools: params.tools?.map(writeTool),
        maxOutputTokens: params.maxOutputTokens,
        responseFormat: params.responseFormat?.type === 'json' ? params.responseFormat : undefined,
        signal: params.abortSignal,
      })
      const out = { ...params, prompt: fitted.prompt as Message[] }
      sent.set(out, fitted)
      return out
    },

    async wrapGenerate({ doGenerate, params, model }) {
      const fitted = sent.get(params)
      if (!fitted) return doGenerate()
      const note = <R extends { usage: unknown }>(result: R): R => {
        conversations.noteUsage(fitted.call, result.usage)
        return result
      }
      try {
        return note(await doGenerate())
      } catch (error) {
        const shorter = await conversations.shrink(fitted, error)
        if (!shorter) throw error
        return note(await model.doGenerate({ ...params, prompt: shorter.prompt as Message[] }))
      }
    },

    async wrapStream({ doStream, params, model }) {
      const fitted = sent.get(params)
      if (!fitted) return doStream()
      const retry = async (error: unknown) => {
        const shorter = await conversations.shrink(fitted, error)
        return shorter && model.doStream({ ...params, prompt: shorter.prompt as Message[] })
      }
      const note = (usage: unknown) => conversations.noteUsage(fitted.call, usage)
      let result: StreamResult
      try {
        result = await doStream()
      } catch (error) {
        const again = await retry(error)
        if (!again) throw error
        return { ...again, stream: relay(again.stream, note) }
      }
      return { ...result, stream: relay(result.stream, note, async (error) => (await retry(error))?.stream) }
    },
  }
}

/** Passes on a stream and notes the usage at its end. A refusal as its first word is answered by another stream. */
function relay(
  stream: ReadableStream<StreamPart>,
  note: (usage: unknown) => void,
  retry?: (error: unknown) => Promise<ReadableStream<StreamPart> | undefined>,
): ReadableStream<StreamPart> {
  const opening = new Set<string>(['stream-start', 'response-metadata', 'raw'])
  let reader = stream.getReader()
  let hasStarted = false // the parts of the opening are passed on once
  let isOpening = true
  let left = retry ? 1 : 0
  return new ReadableStream<StreamPart>({
    async pull(controller) {
      for (;;) {
        const { done, value } = await reader.read()
        if (done) return controller.close()
        if (value.type === 'error' && isOpening && left) {
          left -= 1
          const again = await retry!(value.error)
          if (again) {
            await reader.cancel().catch(() => undefined)
            reader = again.getReader()
            continue
          }
        }
        if (value.type === 'finish') note(value.usage)
        isOpening &&= opening.has(value.type)
        if (value.type === 'stream-start' && hasStarted) continue
        hasStarted ||= value.type === 'stream-start'
        return controller.enqueue(value)
      }
    },
    cancel: (reason) => reader.cancel(reason),
  })
}

function findSession(params: CallParams, given: MiddlewareOptions['session']): string {
  const named = params.providerOptions?.tenfold?.session
  if (typeof named === 'string' && named) return named
  return (typeof given === 'function' ? given(params) : given) ?? ''
}

function writeTool(tool: NonNullable<CallParams['tools']>[number]): object {
  const { name } = tool
  if (tool.type !== 'function') return { type: 'function', function: { name, parameters: tool.args } }
  return { type: 'function', function: { name, description: tool.description, parameters: tool.inputSchema } }
}

/** What `generateText`, `streamText` and agents give to a `prepareStep`, as far as it is needed here. */
export interface StepInput {
  readonly model: string | { readonly modelId: string }
  readonly messages: ModelMessage[]
  readonly initialMessages?: ModelMessage[] | undefined
  readonly instructions?:
    string | { role: 'system'; content: string } | Array<{ role: 'system'; content: string }> | undefined
  readonly steps: ReadonlyArray<{ readonly usage: unknown }>
  readonly runtimeContext?: unknown
}

export interface PrepareStepOptions extends TenfoldOptions {
  /** Your id of the conversation, or a function that finds it: `({ runtimeContext }) => runtimeContext.thread`. */
  readonly session?: string | ((step: any) => string | undefined) | undefined
  /** The most tokens of an answer, if you set them: the gateway keeps that much of the window free. */
  readonly maxOutputTokens?: number | undefined
}

/**
 * Returns a `prepareStep` that sends what the gateway says in place of messages that are too long.
 *
 *     await generateText({ model: 'openai/gpt-5', prompt, prepareStep: tenfoldPrepareStep({ session: 't-17' }) })
 *
 * It is for models that are named by a text, which no middleware can wrap. It does not see the tools, nor the error of
 * a call that is refused: where you can, use `tenfoldMiddleware`.
 */
export function tenfoldPrepareStep(options: PrepareStepOptions = {}) {
  const conversations = new Conversations(options)
  // Since version 7 the SDK goes on with the messages that it was given. The gateway is told all of them.
  const runs = new WeakMap<ModelMessage[], { whole: readonly ModelMessage[]; sent: readonly ModelMessage[] }>()

  return async (step: StepInput): Promise<{ messages: ModelMessage[] } | undefined> => {
    const { messages, initialMessages, instructions, steps, model } = step
    const run = initialMessages && runs.get(initialMessages)
    const continues = run && run.sent.length <= messages.length && run.sent.every((each, at) => each === messages[at])
    const whole = continues ? [...run.whole, ...messages.slice(run.sent.length)] : messages
    const system = writeInstructions(instructions)
    const { session } = options
    const fitted = await conversations.fit<PromptMessage>({
      prompt: [...system, ...whole],
      model: typeof model === 'string' ? model.replace(/^[^/]+\//, '') : model.modelId,
      session: (typeof session === 'function' ? session(step) : session) ?? '',
      maxOutputTokens: options.maxOutputTokens,
      usage: steps.at(-1)?.usage,
    })
    const sent = fitted.prompt.filter((message) => !system.includes(message)) as ModelMessage[]
    if (initialMessages) runs.set(initialMessages, { whole, sent })
    return { messages: sent }
  }
}

function writeInstructions(instructions: StepInput['instructions']): PromptMessage[] {
  if (!instructions) return []
  if (typeof instructions === 'string') return [{ role: 'system', content: instructions }]
  return Array.isArray(instructions) ? instructions : [instructions]
}
