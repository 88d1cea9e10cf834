/**
 * The agents of the examples without Tenfold: `node plain.js KIND SESSION TASK`.
 *
 * The kinds `prune` and `limiter` have what the AI SDK and Mastra themselves offer against a full window.
 */

import { existsSync, readFileSync, writeFileSync } from 'node:fs'

import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { Agent } from '@mastra/core/agent'
import { TokenLimiterProcessor } from '@mastra/core/processors'
import { createTool } from '@mastra/core/tools'
import { generateText, isStepCount, pruneMessages, tool } from 'ai'
import { z } from 'zod'

const { MODEL = 'gpt-5-mini', WINDOW = '128000', OPENAI_BASE_URL, OPENAI_API_KEY } = process.env
const [kind, session, task] = process.argv.slice(2)
const model = createOpenAICompatible({ name: 'openai', baseURL: OPENAI_BASE_URL, apiKey: OPENAI_API_KEY })(MODEL)
const instructions = 'You read the parts of a program.'
const schema = { description: 'Reads a file.', inputSchema: z.object({ path: z.string() }) }
const read = ({ path }) => readFileSync(path, 'utf8')
const file = `${session}.json`
const history = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : []
const messages = [...history, { role: 'user', content: task }]
let result
if (kind === 'ai-sdk' || kind === 'prune') {
  const last = Math.floor(Number(WINDOW) / 1_000) // a step is two messages and some 800 tokens
  const prepareStep = ({ messages }) => ({
    messages: pruneMessages({ messages, toolCalls: `before-last-${last}-messages` }),
  })
  const own = kind === 'prune' ? { prepareStep } : {}
  const tools = { read_file: tool({ ...schema, execute: read }) }
  result = await generateText({ model, tools, instructions, messages, stopWhen: isStepCount(500), ...own })
  writeFileSync(file, JSON.stringify([...messages, ...result.responseMessages]))
} else {
  const inputProcessors = kind === 'limiter' ? [new TokenLimiterProcessor(Math.floor(0.5 * Number(WINDOW)))] : []
  const tools = { read_file: createTool({ id: 'read_file', ...schema, execute: async (input) => read(input) }) }
  const agent = new Agent({ id: 'reader', name: 'Reader', instructions, model, tools, inputProcessors })
  result = await agent.generate(messages, { maxSteps: 500 })
  writeFileSync(file, JSON.stringify([...messages, ...result.response.messages]))
}
console.log(result.text)
