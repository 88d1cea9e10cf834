/**
 * An agent of the AI SDK in a small window: `node ai-sdk.js SESSION TASK`.
 *
 * The line with `tenfoldMiddleware` is all that Tenfold adds. Run it again with the same session: it goes on.
 */

import { existsSync, readFileSync, writeFileSync } from 'node:fs'

import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, isStepCount, tool, wrapLanguageModel } from 'ai'
import { tenfoldMiddleware } from 'tenfold-ai'
import { z } from 'zod'

const {
  MODEL = 'gpt-5-mini',
  WINDOW = '128000',
  OPENAI_BASE_URL = 'https://api.openai.com/v1',
  OPENAI_API_KEY,
} = process.env
const [session, task] = process.argv.slice(2)
const provider = createOpenAICompatible({ name: 'openai', baseURL: OPENAI_BASE_URL, apiKey: OPENAI_API_KEY })
const model = wrapLanguageModel({
  model: provider(MODEL),
  middleware: tenfoldMiddleware({ session, window: Number(WINDOW) }),
})

const tools = {
  read_file: tool({
    description: 'Reads a file.',
    inputSchema: z.object({ path: z.string() }),
    execute: ({ path }) => readFileSync(path, 'utf8'),
  }),
}
const file = `${session}.json`
const history = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : []
const messages = [...history, { role: 'user', content: task }]
const instructions = 'You read the parts of a program.'
const result = await generateText({ model, tools, instructions, messages, stopWhen: isStepCount(500) })
writeFileSync(file, JSON.stringify([...messages, ...result.responseMessages]))
console.log(result.text)
