/** What has to pass the type check of a user: `npm run check`. */

import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { Agent } from '@mastra/core/agent'
import { generateText, streamText, tool, ToolLoopAgent, wrapLanguageModel } from 'ai'
import { z } from 'zod'

import { tenfoldMiddleware, tenfoldPrepareStep, type ViewReport } from '../src/index.js'
import { TenfoldProcessor } from '../src/mastra.js'

const provider = createOpenAICompatible({ name: 'openai', baseURL: 'http://127.0.0.1/v1' })
const tools = { read_file: tool({ inputSchema: z.object({ path: z.string() }), execute: ({ path }) => path }) }
const views: ViewReport[] = []
const middleware = tenfoldMiddleware({ session: 's', window: 8_000, onView: (view) => views.push(view) })
const byThread = tenfoldMiddleware({
  session: ({ providerOptions }) => providerOptions?.app?.thread as string | undefined,
})

export const model = wrapLanguageModel({ model: provider('m'), middleware: [middleware, byThread] })
export const results = [
  generateText({ model: 'openai/m', tools, prompt: '', prepareStep: tenfoldPrepareStep() }),
  streamText({ model, tools, prompt: '', providerOptions: { tenfold: { session: 's' } } }),
]
export const agents = [
  new ToolLoopAgent({
    model,
    tools,
    prepareStep: tenfoldPrepareStep({ session: ({ runtimeContext }) => runtimeContext.thread }),
  }),
]

const tenfold = new TenfoldProcessor({ onError: (error) => console.log(error.status, error.session) })
export const agent = new Agent({
  id: 'a',
  name: 'a',
  instructions: '',
  model: 'openai/m',
  inputProcessors: [tenfold],
  errorProcessors: [tenfold],
})
