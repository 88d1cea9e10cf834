/** Refusals as too long: the texts of the repository's table, in the shapes that the SDK throws. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

import { APICallError, RetryError } from 'ai'

import { readOverflow } from '../dist/overflow.js'

const file = new URL('../../../tests/models/overflow_errors.jsonl', import.meta.url)
const errors = readFileSync(file, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line))

const wrap = (message, more = {}) =>
  new APICallError({ message, url: 'http://127.0.0.1', requestBodyValues: {}, statusCode: 400, ...more })

test('each known text is judged as the gateway judges it', () => {
  assert.ok(errors.length > 60)
  for (const { text, limit } of errors) {
    for (const error of [
      wrap(text),
      wrap('Bad Request', { responseBody: text }),
      new Error('x', { cause: wrap(text) }),
      text,
    ]) {
      const read = readOverflow(error)
      if (limit === undefined) assert.equal(read, undefined, text)
      else assert.deepEqual(read, limit === null ? {} : { limit }, text)
    }
    assert.equal(readOverflow(wrap(text, { statusCode: 429 })), undefined, text)
  }
})

test('the last error of several tries counts', () => {
  const last = wrap('prompt is too long: 218849 tokens > 200000 maximum')
  assert.deepEqual(readOverflow(new RetryError({ message: 'failed', reason: 'errorNotRetryable', errors: [last] })), {
    limit: 200_000,
  })
})

test('an error in a stream is read', () => {
  assert.deepEqual(
    readOverflow({ type: 'error', error: { code: 'context_length_exceeded', message: 'too long' } }),
    {},
  )
})

test('other errors are none, and a 413 without a word is one', () => {
  for (const error of [undefined, null, 7, 'no', new Error('bad key'), wrap('model not found')]) {
    assert.equal(readOverflow(error), undefined)
  }
  assert.deepEqual(readOverflow(wrap('', { statusCode: 413 })), {})
})
