/** The processor in an agent of Mastra: what the gateway is asked, what the model is sent, what memory keeps. */

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Agent } from '@mastra/core/agent'
import { MockMemory } from '@mastra/core/memory'
import { createTool } from '@mastra/core/tools'
import { APICallError } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import { TenfoldProcessor } from 'tenfold-ai/mastra'
import { z } from 'zod'

import { startFake } from './servers.js'

const usage = { inputTokens: { total: 900 }, outputTokens: { total: 5 } }
const refuse = () =>
  new APICallError({
    message: 'prompt is too long: 9000 tokens > 8000 maximum',
    url: '',
    requestBodyValues: {},
    statusCode: 400,
  })

function buildModel(steps, isRefused = () => false) {
  let made = 0
  return new MockLanguageModelV4({
    modelId: 'm-1',
    doGenerate: async (options) => {
      if (isRefused(options)) throw refuse()
      made += 1
      const call = { type: 'tool-call', toolCallId: `c${made}`, toolName: 'read_file', input: `{"path":"${made}"}` }
      const isEnd = made > steps
      const content = isEnd ? [{ type: 'text', text: 'Done.' }] : [call]
      return { content, finishReason: { unified: isEnd ? 'stop' : 'tool-calls' }, usage, warnings: [] }
    },
  })
}

function buildAgent(model, options, more = {}) {
  const tenfold = new TenfoldProcessor(options)
  const read_file = createTool({
    id: 'read_file',
    description: 'Reads a file.',
    inputSchema: z.object({ path: z.string() }),
    execute: async ({ path }) => `content of ${path}`,
  })
  const processors = { inputProcessors: [tenfold], errorProcessors: [tenfold], maxProcessorRetries: 1 }
  return new Agent({
    id: 'a',
    name: 'a',
    instructions: 'You read.',
    model,
    tools: { read_file },
    ...processors,
    ...more,
  })
}

function shorten(most) {
  return ({ messages }) => {
    const kept = messages.slice(-(most - 2))
    const view = messages.length > most ? [messages[0], { role: 'user', content: 'a summary' }, ...kept] : messages
    return { json: { messages: view, tokens_before: 2_000 * messages.length, tokens_after: 2_000 * view.length } }
  }
}

test('the gateway is told of thread, tools, limit of the answer and usage, and memory keeps all', async (t) => {
  const { url, questions } = await startFake(t, shorten(6))
  const model = buildModel(8)
  const memory = new MockMemory()
  const agent = buildAgent(model, { url }, { memory })
  const thread = { thread: 'thread-9', resource: 'user-1' }
  const settings = { maxSteps: 20, modelSettings: { maxOutputTokens: 500 } }
  const result = await agent.generate('Read.', { memory: thread, ...settings })
  assert.equal(result.text, 'Done.')
  const bodies = questions.map(({ body }) => body)
  assert.ok(
    bodies.every(({ session, max_tokens, model }) => session === 'thread-9' && max_tokens === 500 && model === 'm-1'),
  )
  assert.equal(bodies[0].tools[0].function.parameters.properties.path.type, 'string')
  assert.deepEqual([bodies[0].usage, bodies[1].usage.usage.prompt_tokens], [undefined, 900])
  assert.deepEqual(
    bodies.map(({ messages }) => messages.length),
    [2, 4, 6, 8, 10, 12, 14, 16, 18],
  )
  assert.ok(model.doGenerateCalls.every(({ prompt }) => prompt.length <= 6))
  assert.deepEqual(model.doGenerateCalls.at(-1).prompt[1].content, [{ type: 'text', text: 'a summary' }])
  const { messages } = await memory.recall({ threadId: 'thread-9', resourceId: 'user-1' })
  const kept = messages.flatMap(({ content }) => content.parts).filter(({ type }) => type === 'tool-invocation')
  assert.equal(kept.length, 8)
})

test('a session of your own comes first, and without any the first message tells', async (t) => {
  const { url, questions } = await startFake(t, shorten(100))
  for (const session of ['mine', ({ stepNumber }) => `step ${stepNumber}`, undefined]) {
    await buildAgent(buildModel(0), { url, session }).generate('Read.')
  }
  assert.deepEqual(
    questions.map(({ body }) => body.session),
    ['mine', 'step 0', ''],
  )
})

test('a refusal as too long is answered by a shorter prompt, once', async (t) => {
  const { url, questions } = await startFake(t, ({ messages, refused }) => shorten(refused ? 4 : 100)({ messages }))
  let refused = 0
  const model = buildModel(4, ({ prompt }) => prompt.length === 8 && ++refused === 1)
  const result = await buildAgent(model, { url, window: 32_000 }).generate('Read.', { maxSteps: 20 })
  assert.equal(result.text, 'Done.')
  assert.equal(refused, 1)
  const told = questions.map(({ body }) => body.refused)
  assert.deepEqual([told[3], told[4]?.status, told[4]?.text], [undefined, 400, refuse().message])
})

test('a refusal is passed on if nothing gets shorter', async (t) => {
  const { url, questions } = await startFake(t, shorten(100))
  const model = buildModel(0, () => true)
  await assert.rejects(buildAgent(model, { url }).generate('Read.'), /prompt is too long/)
  assert.deepEqual([model.doGenerateCalls.length, questions.length], [1, 2])
})

test('without a gateway the agent runs as it is, and the program is told', async () => {
  const errors = []
  const agent = buildAgent(buildModel(2), { url: 'http://127.0.0.1:1', onError: (error) => errors.push(error) })
  assert.equal((await agent.generate('Read.', { maxSteps: 20 })).text, 'Done.')
  assert.equal(errors.length, 3)
})
