/** Prompts as messages of OpenAI Chat and back: what stays is the same object, and what changes changes alone. */

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { fromChat, toChat } from '../dist/chat.js'

const clone = (value) => JSON.parse(JSON.stringify(value))
const bytes = new Uint8Array([137, 80, 78, 71])
const marks = { anthropic: { cacheControl: { type: 'ephemeral' } } }

/** A prompt with every kind of part of `LanguageModelV4Prompt`. */
function buildPrompt() {
  return [
    { role: 'system', content: 'You read.', providerOptions: marks },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Look at these.', providerOptions: marks },
        { type: 'file', mediaType: 'image/png', data: { type: 'data', data: bytes } },
        { type: 'file', mediaType: 'image/*', data: { type: 'url', url: new URL('https://example.com/a.png') } },
        { type: 'file', mediaType: 'application/pdf', filename: 'a.pdf', data: { type: 'data', data: 'JVBERi0=' } },
        { type: 'file', mediaType: 'audio/wav', data: { type: 'data', data: bytes } },
        { type: 'file', mediaType: 'text/plain', filename: 'a.txt', data: { type: 'text', text: 'plain words' } },
        { type: 'file', mediaType: 'application/pdf', data: { type: 'reference', reference: { openai: 'file-1' } } },
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'reasoning', text: 'I think.', providerOptions: { anthropic: { signature: 'abc' } } },
        { type: 'text', text: 'I read two.' },
        { type: 'tool-call', toolCallId: 'c1', toolName: 'read', input: { path: 'a' } },
        { type: 'tool-call', toolCallId: 'c2', toolName: 'read', input: { path: 'b' } },
      ],
    },
    {
      role: 'tool',
      content: [
        { type: 'tool-result', toolCallId: 'c1', toolName: 'read', output: { type: 'text', value: 'one' } },
        {
          type: 'tool-result',
          toolCallId: 'c2',
          toolName: 'read',
          output: {
            type: 'content',
            value: [
              { type: 'text', text: 'two' },
              { type: 'file', mediaType: 'image/png', data: { type: 'data', data: bytes } },
            ],
          },
          providerOptions: marks,
        },
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'Now the web.' },
        { type: 'tool-call', toolCallId: 'w1', toolName: 'search', input: { q: 'x' }, providerExecuted: true },
        {
          type: 'tool-result',
          toolCallId: 'w1',
          toolName: 'search',
          output: { type: 'json', value: [{ url: 'u' }] },
        },
        { type: 'text', text: 'Found it.' },
        { type: 'file', mediaType: 'image/png', data: { type: 'data', data: bytes } },
        { type: 'reasoning-file', mediaType: 'image/png', data: { type: 'data', data: bytes } },
        { type: 'custom', kind: 'openai.compaction', providerOptions: { openai: { id: 'x' } } },
        { type: 'tool-call', toolCallId: 'c3', toolName: 'write', input: {} },
        { type: 'tool-call', toolCallId: 'c4', toolName: 'write', input: {} },
        { type: 'tool-call', toolCallId: 'c5', toolName: 'write', input: {} },
      ],
    },
    {
      role: 'tool',
      content: [
        {
          type: 'tool-result',
          toolCallId: 'c3',
          toolName: 'write',
          output: { type: 'error-text', value: 'no such file' },
        },
        {
          type: 'tool-result',
          toolCallId: 'c4',
          toolName: 'write',
          output: { type: 'error-json', value: { code: 2 } },
        },
        {
          type: 'tool-result',
          toolCallId: 'c5',
          toolName: 'write',
          output: { type: 'execution-denied', reason: 'not now' },
        },
      ],
    },
    { role: 'tool', content: [{ type: 'tool-approval-response', approvalId: 'p1', approved: true }] },
    {
      role: 'assistant',
      content: [{ type: 'custom', kind: 'openai.item', providerOptions: { openai: { id: 'y' } } }],
    },
    { role: 'user', content: [{ type: 'text', text: 'Go on.' }] },
  ]
}

test('everything that can be said is said, and nothing twice', () => {
  const { chat, counts } = toChat(buildPrompt())
  assert.deepEqual(counts, [1, 1, 1, 2, 2, 3, 0, 0, 1])
  assert.deepEqual(
    chat[1].content.map((part) => part.type),
    ['text', 'image_url', 'image_url', 'file', 'input_audio', 'text', 'file'],
  )
  assert.equal(chat[1].content[1].image_url.url, 'data:image/png;base64,iVBORw==')
  assert.equal(chat[1].content[2].image_url.url, 'https://example.com/a.png')
  assert.equal(chat[1].content[5].text, '[file a.txt]\nplain words')
  assert.equal(chat[2].reasoning_content, 'I think.')
  assert.deepEqual(chat[2].tool_calls[1], {
    id: 'c2',
    type: 'function',
    function: { name: 'read', arguments: '{"path":"b"}' },
  })
  assert.deepEqual(
    chat[4].content.map((part) => part.type),
    ['text', 'image_url'],
  )
  assert.deepEqual(
    chat[5].content.map((part) => part.text),
    ['Now the web.', 'Found it.', '[file image/png]'],
  )
  assert.deepEqual(
    chat.slice(6, 10).map((each) => each.content),
    ['[{"url":"u"}]', 'no such file', '{"code":2}', 'not now'],
  )
})

test('a view that hides nothing is the very same list', () => {
  const prompt = buildPrompt()
  assert.equal(fromChat(clone(toChat(prompt).chat), toChat(prompt)), prompt)
})

test('what stays beside a summary are the same objects, with what the wire cannot say', () => {
  const prompt = buildPrompt()
  const sent = toChat(prompt)
  const chat = clone(sent.chat)
  const summary = { role: 'user', content: 'a summary' }
  const out = fromChat([chat[0], summary, ...chat.slice(5)], sent)
  assert.deepEqual(out[1], { role: 'user', content: [{ type: 'text', text: 'a summary' }] })
  const kept = [0, 4, 5, 6, 7, 8].map((index) => prompt[index])
  for (const [at, message] of [out[0], ...out.slice(2)].entries()) assert.equal(message, kept[at])
  assert.equal(out.length, 7)
})

test('a shortened result changes its own part alone', () => {
  const prompt = buildPrompt()
  const sent = toChat(prompt)
  const chat = clone(sent.chat)
  chat[3] = { role: 'tool', tool_call_id: 'c1', content: '[output removed]' }
  chat[7] = { role: 'tool', tool_call_id: 'c3', content: '[error removed]' }
  const out = fromChat(chat, sent)
  assert.deepEqual(out[3].content[0].output, { type: 'text', value: '[output removed]' })
  assert.equal(out[3].content[1], prompt[3].content[1])
  assert.deepEqual(out[5].content[0].output, { type: 'error-text', value: '[error removed]' })
  for (const index of [0, 1, 2, 4, 6, 7, 8]) assert.equal(out[index], prompt[index])
})

test('an image that stays in a shortened result is the own part', () => {
  const prompt = buildPrompt()
  const sent = toChat(prompt)
  const chat = clone(sent.chat)
  chat[4].content[0].text = 'tw[...]'
  const out = fromChat(chat, sent)
  assert.deepEqual(out[3].content[1].output.value[0], { type: 'text', text: 'tw[...]' })
  assert.equal(out[3].content[1].output.value[1], prompt[3].content[1].output.value[1])
  assert.equal(out[3].content[1].providerOptions, marks)
})

test('an answer without one of its calls keeps its reasoning and the other call', () => {
  const prompt = buildPrompt()
  const sent = toChat(prompt)
  const chat = clone(sent.chat)
  chat[2].tool_calls.splice(0, 1)
  chat[2].content = 'I read one.'
  chat.splice(3, 1)
  const out = fromChat(chat, sent)
  const [reasoning, , , second] = prompt[2].content
  assert.deepEqual(out[2].content, [reasoning, { type: 'text', text: 'I read one.' }, second])
  assert.equal(out[2].content[0], reasoning)
  assert.deepEqual(out[3].content, [prompt[3].content[1]])
})

test('shorter arguments of a call change the call alone', () => {
  const prompt = buildPrompt()
  const sent = toChat(prompt)
  const chat = clone(sent.chat)
  chat[2].tool_calls[0].function.arguments = '{"path":"[...]"}'
  const out = fromChat(chat, sent)
  assert.deepEqual(out[2].content[2], { ...prompt[2].content[2], input: { path: '[...]' } })
  for (const index of [0, 1, 3]) assert.equal(out[2].content[index], prompt[2].content[index])
})

test('of messages that are alike the newest stays', () => {
  const prompt = ['a', 'a', 'b', 'a'].map((text) => ({ role: 'user', content: [{ type: 'text', text }] }))
  const sent = toChat(prompt)
  const out = fromChat(
    [
      { role: 'user', content: 'a' },
      { role: 'user', content: 'b' },
      { role: 'user', content: 'a' },
    ],
    sent,
  )
  assert.deepEqual(
    out.map((message) => prompt.indexOf(message)),
    [1, 2, 3],
  )
})

test('a request that is shown by head and tail keeps its files', () => {
  const prompt = buildPrompt()
  const sent = toChat(prompt)
  const chat = clone(sent.chat)
  chat[1].content[0].text = 'Look [...] these.'
  const out = fromChat(chat, sent)
  assert.deepEqual(out[1].content[0], { type: 'text', text: 'Look [...] these.' })
  for (const at of [1, 2, 3, 4, 6]) assert.equal(out[1].content[at], prompt[1].content[at])
})

test('messages of the view that the prompt does not have are built', () => {
  const calls = [{ id: 'n1', type: 'function', function: { name: 'look', arguments: '{"at":1}' } }]
  const view = [
    { role: 'system', content: 'A note.' },
    { role: 'assistant', content: 'Said.', tool_calls: calls },
    { role: 'tool', tool_call_id: 'n1', content: 'seen' },
  ]
  assert.deepEqual(fromChat(view, toChat([])), [
    { role: 'system', content: 'A note.' },
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'Said.' },
        { type: 'tool-call', toolCallId: 'n1', toolName: 'look', input: { at: 1 } },
      ],
    },
    {
      role: 'tool',
      content: [{ type: 'tool-result', toolCallId: 'n1', toolName: 'look', output: { type: 'text', value: 'seen' } }],
    },
  ])
})

test('messages of a program and of older models are read as well', () => {
  const prompt = [
    { role: 'system', content: 'You read.' },
    { role: 'user', content: 'Look.' },
    { role: 'assistant', content: 'I look.' },
    {
      role: 'user',
      content: [
        { type: 'image', image: bytes },
        { type: 'image', image: new URL('https://example.com/b.png') },
        { type: 'file', mediaType: 'image/png', data: bytes },
        { type: 'file', mediaType: 'application/pdf', data: 'JVBERi0=' },
        { type: 'file', mediaType: 'application/pdf', data: bytes.buffer },
      ],
    },
    {
      role: 'tool',
      content: [
        {
          type: 'tool-result',
          toolCallId: 'c',
          toolName: 'look',
          output: {
            type: 'content',
            value: [
              { type: 'media', mediaType: 'image/png', data: 'iVBORw==' },
              { type: 'image-url', url: 'https://example.com/c.png' },
              { type: 'file-id', fileId: 'file-2' },
            ],
          },
        },
      ],
    },
  ]
  const sent = toChat(prompt)
  assert.deepEqual(
    sent.chat[3].content.map((part) => part.type),
    ['image_url', 'image_url', 'image_url', 'file', 'file'],
  )
  assert.deepEqual(
    sent.chat[4].content.map((part) => part.type),
    ['image_url', 'image_url', 'file'],
  )
  assert.equal(fromChat(clone(sent.chat), sent), prompt)
})

test('a role that is not known is an error, and not lost', () => {
  assert.throws(() => toChat([{ role: 'queen', content: 'x' }]), /"queen"/)
})
