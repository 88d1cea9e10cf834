/** What a provider said is read from whatever the SDK throws, so that the gateway can judge it. */

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { APICallError, RetryError } from 'ai'

import { readRefusal } from '../dist/refusal.js'

const TEXT = 'prompt is too long: 218849 tokens > 200000 maximum'
const wrap = (message, more = {}) =>
  new APICallError({ message, url: 'http://127.0.0.1', requestBodyValues: {}, statusCode: 400, ...more })

test('the text and the status are found in any wrapping', () => {
  for (const error of [
    wrap(TEXT),
    wrap('Bad Request', { responseBody: TEXT }),
    new Error('x', { cause: wrap(TEXT) }),
    new RetryError({ message: 'failed', reason: 'errorNotRetryable', errors: [wrap(TEXT)] }),
    { type: 'error', error: { status: 400, message: TEXT } },
  ]) {
    const { status, text } = readRefusal(error)
    assert.equal(status, 400)
    assert.ok(text.includes(TEXT), text)
  }
  assert.deepEqual(readRefusal(TEXT), { status: undefined, text: TEXT })
  assert.equal(readRefusal({ error: { code: 'context_length_exceeded' } }).text, 'context_length_exceeded')
})

test('what says nothing is none, and a status without a word is one', () => {
  for (const error of [undefined, null, 7, {}]) assert.equal(readRefusal(error), undefined)
  assert.deepEqual(readRefusal(wrap('', { statusCode: 413 })), { status: 413, text: '' })
})
