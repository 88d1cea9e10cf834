/**
 * An agent of Mastra in a small window: `node mastra.js SESSION TASK`.
 *
 * `TenfoldProcessor` is all that Tenfold adds. Run it again with the same session: it goes on. A program with Mastra's
 * memory needs no file, and the session is then the thread of the memory.
 */

import { existsSync, readFileSync, writeFileSync } from 'node:fs'

import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { Agent } from '@mastra/core/agent'
import { createTool } from '@mastra/core/tools'
import { TenfoldProcessor } from 'tenfold-ai/mastra'
import { z } from 'zod'

const {
  MODEL = 'gpt-5-mini',
  WINDOW = '128000',
  OPENAI_BASE_URL = 'https://api.openai.com/v1',
  OPENAI_API_KEY,
} = process.env
const [session, task] = process.argv.slice(2)
const provider = createOpenAICompatible({ name: 'openai', baseURL: OPENAI_BASE_URL, apiKey: OPENAI_API_KEY })
const tenfold = new TenfoldProcessor({ session, window: Number(WINDOW) })

const agent = new Agent({
  id: 'reader',
  name: 'Reader',
  instructions: 'You read the parts of a program.',
  model: provider(MODEL),
  tools: {
    read_file: createTool({
      id: 'read_file',
      description: 'Reads a file.',
      inputSchema: z.object({ path: z.string() }),
      execute: async ({ path }) => readFileSync(path, 'utf8'),
    }),
  },
  inputProcessors: [tenfold],
  errorProcessors: [tenfold],
  maxProcessorRetries: 1,
})
const file = `${session}.json`
const history = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : []
const messages = [...history, { role: 'user', content: task }]
const result = await agent.generate(messages, { maxSteps: 500 })
writeFileSync(file, JSON.stringify([...messages, ...result.response.messages]))
console.log(result.text)
