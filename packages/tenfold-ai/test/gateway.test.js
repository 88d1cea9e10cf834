/** What becomes of a prompt when the gateway is down, slow, wrong, or asks for a key. */

import assert from 'node:assert/strict'
import { afterEach, test } from 'node:test'

import { Conversations, TenfoldError } from '../dist/conversations.js'
import { startFake, startGateway } from './servers.js'

const prompt = [{ role: 'user', content: [{ type: 'text', text: 'Hello.' }] }]
const call = { prompt, model: 'm', session: 's' }
const { warn } = console
afterEach(() => {
  console.warn = warn
})

async function fit(options) {
  const errors = []
  const fitted = await new Conversations({ onError: (error) => errors.push(error), ...options }).fit(call)
  return { fitted, errors }
}

async function expectUnchanged(options, pattern, status) {
  const { fitted, errors } = await fit(options)
  assert.equal(fitted.prompt, prompt)
  assert.equal(fitted.tokens, undefined)
  assert.equal(errors.length, 1)
  assert.ok(errors[0] instanceof TenfoldError)
  assert.match(errors[0].message, pattern)
  assert.equal(errors[0].status, status)
  assert.equal(errors[0].session, 's')
}

test('a gateway that does not run', async (t) => {
  const { url, stop } = await startGateway(t)
  await stop()
  await expectUnchanged({ url }, /the prompt goes out as it is, since http.* gave no view of it: ECONNREFUSED/)
})

test('a gateway that does not answer in time', async (t) => {
  const { url } = await startFake(t, () => new Promise(() => {}))
  await expectUnchanged({ url, timeout: 50 }, /did not answer within 50 ms/)
})

test('a gateway that answers an error, in JSON or not', async (t) => {
  const answers = [
    { status: 500, json: { error: { message: 'a fault of the gateway' } } },
    { status: 502, text: '<html>' },
    { json: { messages: [] } },
    { text: 'no JSON' },
    { json: { messages: [{ role: 'user', content: 7 }] } },
  ]
  const { url } = await startFake(t, (_, count) => answers[count - 1])
  await expectUnchanged({ url }, /a fault of the gateway/, 500)
  await expectUnchanged({ url }, /answered 502 without a view/, 502)
  await expectUnchanged({ url }, /answered 200 without a view/, 200)
  await expectUnchanged({ url }, /JSON/)
  await expectUnchanged({ url }, /./)
})

test('without a callback one warning is printed', async () => {
  const warnings = []
  console.warn = (text) => warnings.push(text)
  const conversations = new Conversations({ url: 'http://127.0.0.1:1' })
  for (let count = 0; count < 3; count++) assert.equal((await conversations.fit(call)).prompt, prompt)
  assert.equal(warnings.length, 1)
})

test('a callback that throws stops the call', async () => {
  const onError = () => {
    throw new Error('no call without the gateway')
  }
  await assert.rejects(new Conversations({ url: 'http://127.0.0.1:1', onError }).fit(call), /no call without/)
})

test('a call that the program aborts is no error of the gateway', async (t) => {
  const { url } = await startFake(t, () => new Promise(() => {}))
  const errors = []
  const signal = AbortSignal.timeout(30)
  const conversations = new Conversations({ url, onError: (error) => errors.push(error) })
  assert.equal((await conversations.fit({ ...call, signal })).prompt, prompt)
  assert.deepEqual(errors, [])
})

test('a real gateway with a key', async (t) => {
  const { url } = await startGateway(t, { key: 'open-sesame' })
  await expectUnchanged({ url }, /needs its key/, 401)
  const { fitted, errors } = await fit({ url, key: 'open-sesame' })
  assert.deepEqual(errors, [])
  assert.equal(fitted.prompt, prompt)
  assert.ok(fitted.tokens > 0)
})

test('the address and the key come from the environment', async (t) => {
  const { url, questions } = await startFake(t, ({ messages }) => ({
    json: { messages, tokens_before: 1, tokens_after: 1 },
  }))
  process.env.TENFOLD_GATEWAY_URL = `${url}/`
  process.env.TENFOLD_GATEWAY_KEY = 'k'
  t.after(() => {
    delete process.env.TENFOLD_GATEWAY_URL
    delete process.env.TENFOLD_GATEWAY_KEY
  })
  await fit({})
  assert.equal(questions[0].headers['x-tenfold-key'], 'k')
})

test('a real gateway takes every kind of part, and what stays are the same objects', async (t) => {
  const { url } = await startGateway(t)
  const words = Array.from({ length: 300 }, (_, number) => `word${number}`).join(' ')
  const image = {
    type: 'file',
    mediaType: 'image/png',
    data: { type: 'data', data: new Uint8Array([137, 80, 78, 71]) },
  }
  const long = [{ role: 'system', content: 'You read.' }]
  long.push({ role: 'user', content: [{ type: 'text', text: 'Look. Never touch config.py.' }, image] })
  const errors = []
  const reports = []
  const conversations = new Conversations({
    url,
    window: 8_000,
    onError: (error) => errors.push(error),
    onView: (view) => reports.push(view),
  })
  let fitted
  for (let number = 0; number < 20; number++) {
    const id = `call_${'x'.repeat(50)}${number}` // longer than OpenAI takes them
    const output = { type: 'content', value: [{ type: 'text', text: `${number} ${words}` }, image] }
    long.push({
      role: 'assistant',
      content: [
        { type: 'reasoning', text: 'I think.', providerOptions: { anthropic: { signature: `${number}` } } },
        { type: 'tool-call', toolCallId: id, toolName: 'look', input: { number } },
      ],
    })
    long.push({ role: 'tool', content: [{ type: 'tool-result', toolCallId: id, toolName: 'look', output }] })
    fitted = await conversations.fit({ prompt: [...long], model: 'm', session: 's' })
  }
  assert.deepEqual(errors, [])
  assert.ok(reports.at(-1).tokensBefore > 12_000)
  assert.ok(reports.every((report) => report.tokensAfter < 8_000))
  assert.equal(fitted.prompt[0], long[0])
  assert.equal(fitted.prompt.at(-1), long.at(-1))
  assert.equal(fitted.prompt.at(-2), long.at(-2))
  assert.match(JSON.stringify(fitted.prompt), /Never touch config\.py/)
  const answers = fitted.prompt.filter((message) => message.role === 'assistant')
  assert.ok(answers.length > 1 && answers.every((message) => long.includes(message)), 'with their signatures')
})
