/** The middleware and `prepareStep` in the AI SDK: what the gateway is asked, and what the model is sent. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import {
  APICallError,
  generateText,
  isStepCount,
  simulateReadableStream,
  streamText,
  tool,
  wrapLanguageModel,
} from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import { tenfoldMiddleware, tenfoldPrepareStep } from 'tenfold-ai'
import { z } from 'zod'

import { startFake, startGateway, startProvider } from './servers.js'

const usage = { inputTokens: { total: 900, cacheRead: 700 }, outputTokens: { total: 5 } }
const refusal = new APICallError({
  message: "This model's maximum context length is 8000 tokens",
  url: '',
  requestBodyValues: {},
  statusCode: 400,
})
const read_file = tool({
  description: 'Reads a file.',
  inputSchema: z.object({ path: z.string() }),
  execute: ({ path }) => `content of ${path}`,
})

/** A model that calls a tool `steps` times. `refuse` gets each call and returns an error, or nothing. */
function buildModel(steps, refuse = () => undefined) {
  let made = 0
  const answer = (options) => {
    const error = refuse(options)
    if (error) throw error
    made += 1
    const call = { type: 'tool-call', toolCallId: `c${made}`, toolName: 'read_file', input: `{"path":"${made}"}` }
    const isEnd = made > steps
    const content = isEnd ? [{ type: 'text', text: 'Done.' }] : [call]
    return { content, finishReason: { unified: isEnd ? 'stop' : 'tool-calls' }, usage, warnings: [] }
  }
  return new MockLanguageModelV4({
    modelId: 'm-1',
    doGenerate: async (options) => answer(options),
    doStream: async (options) => {
      const { content, finishReason } = answer(options)
      const said = content.flatMap((part) => (part.type === 'text' ? toDeltas(part.text) : [part]))
      const chunks = [{ type: 'stream-start', warnings: [] }, ...said, { type: 'finish', finishReason, usage }]
      return { stream: simulateReadableStream({ chunks, initialDelayInMs: null, chunkDelayInMs: null }) }
    },
  })
}

function toDeltas(text) {
  return [
    { type: 'text-start', id: '1' },
    { type: 'text-delta', id: '1', delta: text },
    { type: 'text-end', id: '1' },
  ]
}

/** A view that hides the oldest calls once there are more than `most` messages. */
function shorten(most) {
  return ({ messages }) => {
    const [first, ...others] = messages
    const kept = others.slice(-(most - 2))
    const view = messages.length > most ? [first, { role: 'user', content: 'a summary' }, ...kept] : messages
    return { json: { messages: view, tokens_before: 2_000 * messages.length, tokens_after: 2_000 * view.length } }
  }
}

test('the gateway is told of the session, the tools, the limit of the answer and the usage', async (t) => {
  const { url, questions } = await startFake(t, shorten(100))
  const model = wrapLanguageModel({
    model: buildModel(1),
    middleware: tenfoldMiddleware({ url, session: 's1', window: 9_000 }),
  })
  await generateText({
    model,
    tools: { read_file },
    instructions: 'You read.',
    prompt: 'Read.',
    maxOutputTokens: 500,
    stopWhen: isStepCount(5),
  })
  const [first, second] = questions.map(({ body }) => body)
  assert.deepEqual(first.messages, [
    { role: 'system', content: 'You read.' },
    { role: 'user', content: 'Read.' },
  ])
  assert.deepEqual(
    [first.wire, first.session, first.model, first.window, first.max_tokens],
    ['openai-chat', 's1', 'm-1', 9_000, 500],
  )
  assert.equal(first.tools[0].function.name, 'read_file')
  assert.equal(first.tools[0].function.parameters.properties.path.type, 'string')
  assert.equal(first.usage, undefined)
  const told = { prompt_tokens: 900, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 700 } }
  assert.deepEqual(second.usage, { usage: told })
})

test('the session in providerOptions comes first, then what the function finds', async (t) => {
  const { url, questions } = await startFake(t, shorten(100))
  const middleware = tenfoldMiddleware({ url, session: ({ headers }) => headers?.['x-thread'] })
  const model = wrapLanguageModel({ model: buildModel(0), middleware })
  await generateText({
    model,
    prompt: 'a',
    providerOptions: { tenfold: { session: 'own' } },
    headers: { 'x-thread': 'h' },
  })
  await generateText({ model, prompt: 'a', headers: { 'x-thread': 'h' } })
  await generateText({ model, prompt: 'a' })
  assert.deepEqual(
    questions.map(({ body }) => body.session),
    ['own', 'h', ''],
  )
})

test('usage is told of the conversation that it is of', async (t) => {
  const { url, questions } = await startFake(t, shorten(100))
  const model = wrapLanguageModel({ model: buildModel(0), middleware: tenfoldMiddleware({ url }) })
  const messages = [{ role: 'user', content: 'a' }]
  await generateText({ model, messages })
  await generateText({ model, messages: [{ role: 'user', content: 'b' }] })
  await generateText({ model, messages })
  await generateText({
    model,
    messages: [...messages, { role: 'assistant', content: 'Done.' }, { role: 'user', content: 'c' }],
  })
  assert.deepEqual(
    questions.map(({ body }) => body.usage !== undefined),
    [false, false, false, true],
  )
})

test('the model is sent the view, and the program keeps all', async (t) => {
  const { url } = await startFake(t, shorten(6))
  const inner = buildModel(8)
  const model = wrapLanguageModel({ model: inner, middleware: tenfoldMiddleware({ url }) })
  const result = await generateText({ model, tools: { read_file }, prompt: 'Read.', stopWhen: isStepCount(20) })
  assert.equal(result.text, 'Done.')
  assert.equal(result.responseMessages.length, 17)
  assert.ok(inner.doGenerateCalls.every(({ prompt }) => prompt.length <= 6))
  assert.deepEqual(inner.doGenerateCalls.at(-1).prompt[1].content, [{ type: 'text', text: 'a summary' }])
})

for (const isStream of [false, true]) {
  const run = async (options) => {
    if (!isStream) return (await generateText(options)).text
    return streamText({ ...options, onError: () => {} }).text
  }
  const how = isStream ? 'streamed' : 'generated'

  test(`${how}: the usage of each answer is told with the next question`, async (t) => {
    const { url, questions } = await startFake(t, shorten(100))
    const model = wrapLanguageModel({ model: buildModel(2), middleware: tenfoldMiddleware({ url }) })
    assert.equal(await run({ model, tools: { read_file }, prompt: 'Read.', stopWhen: isStepCount(20) }), 'Done.')
    assert.deepEqual(
      questions.map(({ body }) => body.usage?.usage.prompt_tokens),
      [undefined, 900, 900],
    )
  })

  test(`${how}: a refusal as too long is answered by a shorter prompt, once`, async (t) => {
    const { url, questions } = await startFake(t, ({ messages, refused }) => shorten(refused ? 4 : 100)({ messages }))
    let refused = 0
    const inner = buildModel(4, ({ prompt }) => (prompt.length === 7 && ++refused === 1 ? refusal : undefined))
    const model = wrapLanguageModel({ model: inner, middleware: tenfoldMiddleware({ url, window: 32_000 }) })
    assert.equal(await run({ model, tools: { read_file }, prompt: 'Read.', stopWhen: isStepCount(20) }), 'Done.')
    assert.equal(refused, 1)
    const told = questions.map(({ body }) => body.refused)
    assert.deepEqual([told[3], told[4]], [undefined, { status: 400, text: refusal.message }])
    assert.ok(questions.every(({ body }) => body.window === 32_000))
  })

  test(`${how}: a refusal is passed on if nothing gets shorter, or if it says something else`, async (t) => {
    const errors = []
    const onError = (error) => errors.push(error)
    const other = new APICallError({ message: 'slow down', url: '', requestBodyValues: {}, statusCode: 429 })
    const tell = { status: 422, json: { error: { message: 'not as too long' } } }
    const { url, questions } = await startFake(t, ({ messages, refused }) =>
      refused?.text.includes('key') ? tell : shorten(100)({ messages }),
    )
    for (const [error, asked] of [
      [refusal, 2],
      [new Error('bad key'), 2],
      [other, 1],
    ]) {
      questions.splice(0)
      const middleware = tenfoldMiddleware({ url, onError })
      const model = wrapLanguageModel({ model: buildModel(0, () => error), middleware })
      await assert.rejects(run({ model, prompt: 'Read.', maxRetries: 0 }), (got) => isStream || got === error)
      assert.equal(questions.length, asked)
      assert.deepEqual(errors, [])
    }
  })
}

test('a refusal as the first word of a stream is answered by another stream', async (t) => {
  const { url } = await startFake(t, ({ messages, refused }) => {
    const isShort = refused?.text.includes('context_length_exceeded')
    return {
      json: {
        messages: isShort ? messages.slice(-1) : messages,
        tokens_before: 9_000,
        tokens_after: isShort ? 10 : 9_000,
      },
    }
  })
  const starts = []
  const inner = new MockLanguageModelV4({
    doStream: async ({ prompt }) => {
      const error = { type: 'error', error: { code: 'context_length_exceeded', message: 'too long' } }
      const said = prompt.length > 1 ? [error] : toDeltas('Done.')
      starts.push(prompt.length)
      const end = { type: 'finish', finishReason: { unified: 'stop' }, usage }
      const chunks = [{ type: 'stream-start', warnings: [] }, ...said, end]
      return { stream: simulateReadableStream({ chunks, initialDelayInMs: null, chunkDelayInMs: null }) }
    },
  })
  const model = wrapLanguageModel({ model: inner, middleware: tenfoldMiddleware({ url }) })
  const { stream } = await model.doStream({
    prompt: [
      { role: 'system', content: 'x' },
      { role: 'user', content: [{ type: 'text', text: 'Read.' }] },
    ],
  })
  const kinds = []
  for await (const part of stream) kinds.push(part.type)
  assert.deepEqual(starts, [2, 1])
  assert.deepEqual(kinds, ['stream-start', 'text-start', 'text-delta', 'text-end', 'finish'])
})

test('prepareStep tells the gateway everything at each step, also what an earlier view has hidden', async (t) => {
  const { url, questions } = await startFake(t, shorten(6))
  const inner = buildModel(8)
  const prepareStep = tenfoldPrepareStep({ url, session: ({ runtimeContext }) => runtimeContext.thread })
  const result = await generateText({
    model: inner,
    tools: { read_file },
    instructions: 'You read.',
    messages: [{ role: 'user', content: 'Read.' }],
    prepareStep,
    runtimeContext: { thread: 't-1' },
    stopWhen: isStepCount(20),
  })
  assert.equal(result.text, 'Done.')
  assert.deepEqual(
    questions.map(({ body }) => body.messages.length),
    [2, 4, 6, 8, 10, 12, 14, 16, 18],
  )
  assert.ok(questions.every(({ body }) => body.session === 't-1' && body.messages[0].role === 'system'))
  assert.ok(questions.slice(1).every(({ body }) => body.usage.usage.prompt_tokens === 900))
  assert.ok(inner.doGenerateCalls.every(({ prompt }) => prompt.length <= 6 && prompt[0].content === 'You read.'))
})

test('streamText with prepareStep and the middleware beside a real gateway', async (t) => {
  for (const isWrapped of [true, false]) {
    const provider = await startProvider(t, 8_000)
    const { url } = await startGateway(t)
    const inner = createOpenAICompatible({ name: 'openai', baseURL: `${provider.url}/v1`, includeUsage: true })(
      'gpt-5-mini',
    )
    const options = { url, session: 's', window: 8_000 }
    const result = streamText({
      model: isWrapped ? wrapLanguageModel({ model: inner, middleware: tenfoldMiddleware(options) }) : inner,
      tools: { read_file: tool({ ...read_file, execute: ({ path }) => readFileSync(path, 'utf8') }) },
      prompt: 'Read all parts.',
      stopWhen: isStepCount(100),
      ...(isWrapped ? {} : { prepareStep: tenfoldPrepareStep(options) }),
    })
    assert.match(await result.text, /The task is done/)
    const { steps, refusals, largest } = await provider.stop()
    assert.deepEqual([steps, refusals], [30, []])
    assert.ok(largest < 8_000)
  }
})
