/** Sixty steps of each example in small windows, over two processes: nothing is refused, and without Tenfold it is. */

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { runAgent } from './runs.js'

for (const window of [8_000, 32_000]) {
  for (const name of ['ai-sdk', 'prepare-step', 'mastra']) {
    test(`${name} in a window of ${window}`, async (t) => {
      const { steps, ends, refusals, largest, cached, answers } = await runAgent(t, [`examples/${name}.js`], window)
      for (const { code, out, err } of answers) {
        assert.equal(code, 0, err)
        assert.match(out, /The task is done/)
      }
      assert.deepEqual([steps, ends, refusals], [60, 2, []])
      assert.ok(largest < window)
      assert.ok(cached > 0.7, `${cached} began like the request before it`)
    })
  }
}

for (const kind of ['ai-sdk', 'mastra']) {
  test(`${kind} without Tenfold is refused`, async (t) => {
    const { steps, refusals } = await runAgent(t, ['test/plain.js', kind], 8_000, { hasGateway: false })
    assert.ok(steps < 60)
    assert.ok(refusals.length > 0)
  })
}

for (const name of ['ai-sdk', 'mastra']) {
  test(`${name} with a window that is set too large is refused once, and goes on`, async (t) => {
    const { steps, refusals } = await runAgent(t, [`examples/${name}.js`], 8_000, { env: { WINDOW: '32000' } })
    assert.equal(steps, 60)
    assert.equal(refusals.length, 1, 'the gateway remembers the window that the provider named')
  })
}

test('with a gateway that is down the agent runs to where it would run without', async (t) => {
  const env = { TENFOLD_GATEWAY_URL: 'http://127.0.0.1:1' }
  const { steps, answers } = await runAgent(t, ['examples/ai-sdk.js'], 8_000, { hasGateway: false, env })
  assert.ok(steps > 20 && steps < 60)
  assert.match(answers[0].err, /tenfold: the prompt goes out as it is/)
})
