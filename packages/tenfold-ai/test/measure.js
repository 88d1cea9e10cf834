/** Prints what becomes of sixty steps in small windows, with and without Tenfold: `node test/measure.js WINDOW...` */

import { runAgent } from './runs.js'

const ROWS = [
  ['AI SDK, tenfoldMiddleware', ['examples/ai-sdk.js'], true],
  ['AI SDK, tenfoldPrepareStep', ['examples/prepare-step.js'], true],
  ['AI SDK, pruneMessages', ['test/plain.js', 'prune'], false],
  ['AI SDK alone', ['test/plain.js', 'ai-sdk'], false],
  ['Mastra, TenfoldProcessor', ['examples/mastra.js'], true],
  ['Mastra, TokenLimiterProcessor', ['test/plain.js', 'limiter'], false],
  ['Mastra alone', ['test/plain.js', 'mastra'], false],
]
const windows = process.argv.slice(2).map(Number)
const ends = []
const scope = { after: (end) => ends.push(end) }
console.log('| agent | window | steps | refused | largest | began like an earlier one | seconds | first refusal |')
console.log('|---|---|---|---|---|---|---|---|')
for (const window of windows.length ? windows : [8_000, 32_000]) {
  for (const [name, script, hasGateway] of ROWS) {
    const start = Date.now()
    const { steps, refusals, largest, cached, answers } = await runAgent(scope, script, window, { hasGateway })
    const seconds = ((Date.now() - start) / 1_000).toFixed(1)
    const why = (refusals[0] ?? answers.find((each) => each.code)?.err ?? '').replaceAll(/\s+/g, ' ').slice(0, 90)
    const cells = [name, window, steps, refusals.length, largest, `${Math.round(100 * cached)} %`, seconds, why]
    console.log(`| ${cells.join(' | ')} |`)
    for (const end of ends.splice(0).reverse()) await end()
  }
}
