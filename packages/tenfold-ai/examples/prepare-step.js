/**
 * The same agent, with a model that is not wrapped: `node prepare-step.js SESSION TASK`.
 *
 * The line with `tenfoldPrepareStep` is all that Tenfold adds. Run it again with the same session: it goes on.
 */

import { existsSync, readFileSync, writeFileSync } from 'node:fs'

import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { isStepCount, tool, ToolLoopAgent } from 'ai'
import { tenfoldPrepareStep } from 'tenfold-ai'
import { z } from 'zod'

const {
  MODEL = 'gpt-5-mini',
  WINDOW = '128000',
  OPENAI_BASE_URL = 'https://api.openai.com/v1',
  OPENAI_API_KEY,
} = process.env
const [session, task] = process.argv.slice(2)
const provider = createOpenAICompatible({ name: 'openai', baseURL: OPENAI_BASE_URL, apiKey: OPENAI_API_KEY })

const agent = new ToolLoopAgent({
  model: provider(MODEL),
  instructions: 'You read the parts of a program.',
  tools: {
    read_file: tool({
      description: 'Reads a file.',
      inputSchema: z.object({ path: z.string() }),
      execute: ({ path }) => readFileSync(path, 'utf8'),
    }),
  },
  stopWhen: isStepCount(500),
  prepareStep: tenfoldPrepareStep({ session, window: Number(WINDOW) }),
})
const file = `${session}.json`
const history = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : []
const messages = [...history, { role: 'user', content: task }]
const result = await agent.generate({ messages })
writeFileSync(file, JSON.stringify([...messages, ...result.responseMessages]))
console.log(result.text)
