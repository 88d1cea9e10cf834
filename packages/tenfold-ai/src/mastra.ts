/** For Mastra: a processor that has the model see what the gateway says in place of a prompt that is too long. */

import type {
  ProcessAPIErrorArgs,
  ProcessAPIErrorResult,
  ProcessInputStepArgs,
  ProcessLLMRequestArgs,
  Processor,
} from '@mastra/core/processors'

import type { PromptMessage } from './chat.js'
import { Conversations, type Fitted, type TenfoldOptions } from './conversations.js'

export { TenfoldError } from './conversations.js'
export type { TenfoldOptions, ViewReport } from './conversations.js'

type Prompt = ProcessLLMRequestArgs['prompt']
type Message = Prompt[number] & PromptMessage

export interface ProcessorOptions extends TenfoldOptions {
  /** Your id of the conversation, or a function that finds it. Default: the id of the memory's thread. */
  readonly session?: string | ((args: ProcessLLMRequestArgs) => string | undefined) | undefined
}

/** What the processor keeps between the calls of a run, by the state object that Mastra gives it. */
interface Run {
  tools?: object[]
  maxOutputTokens?: number | undefined
  fitted?: Fitted<Message>
  shorter?: Fitted<Message> | undefined
  shrunkStep?: number
}

/**
 * Sends what the gateway says in place of a prompt that is too long.
 *
 *     const tenfold = new TenfoldProcessor()
 *     new Agent({ ..., inputProcessors: [tenfold], errorProcessors: [tenfold] })
 *
 * It changes the prompt of each call and nothing else: messages, memory and what a user interface shows stay whole.
 * Among `errorProcessors` it has a call that the provider refuses as too long made once more with a shorter prompt.
 */
export class TenfoldProcessor implements Processor<'tenfold'> {
  readonly id = 'tenfold'
  readonly name = 'Tenfold'
  readonly description =
    "Sends what a Tenfold gateway says in place of a prompt that is too long for the model's window."
  readonly #options: ProcessorOptions
  readonly #conversations: Conversations
  readonly #runs = new WeakMap<object, Run>()

  constructor(options: ProcessorOptions = {}) {
    this.#options = options
    this.#conversations = new Conversations(options)
  }

  /** Notes what takes room beside the prompt: `processLLMRequest` is not given it. */
  processInputStep({ tools, activeTools, modelSettings, state }: ProcessInputStepArgs): void {
    const run = this.#findRun(state)
    const names = Object.keys(tools ?? {}).filter((name) => !activeTools || activeTools.includes(name))
    run.tools = names.map((name) => writeTool(name, tools![name]))
    run.maxOutputTokens = modelSettings?.maxOutputTokens
  }

  async processLLMRequest(args: ProcessLLMRequestArgs): Promise<{ prompt: Prompt }> {
    const { prompt, model, steps, state, abortSignal } = args
    const run = this.#findRun(state)
    const { shorter } = run
    delete run.shorter
    if (shorter && shorter.call.prompt.length === prompt.length) {
      run.fitted = shorter
      return { prompt: shorter.prompt as Prompt }
    }
    run.fitted = await this.#conversations.fit<Message>({
      prompt: prompt as Message[],
      model: model.modelId,
      session: this.#findSession(args),
      tools: run.tools,
      maxOutputTokens: run.maxOutputTokens,
      usage: steps.at(-1)?.usage,
      signal: abortSignal,
    })
    return { prompt: run.fitted.prompt as Prompt }
  }

  async processAPIError({ error, stepNumber, state }: ProcessAPIErrorArgs): Promise<ProcessAPIErrorResult | void> {
    const run = this.#findRun(state)
    if (!run.fitted || run.shrunkStep === stepNumber) return undefined
    run.shorter = await this.#conversations.shrink(run.fitted, error)
    if (!run.shorter) return undefined
    run.shrunkStep = stepNumber
    return { retry: true }
  }

  #findRun(state: object): Run {
    const known = this.#runs.get(state)
    if (known) return known
    const run: Run = {}
    this.#runs.set(state, run)
    return run
  }

  #findSession(args: ProcessLLMRequestArgs): string {
    const given = this.#options.session
    const named = typeof given === 'function' ? given(args) : given
    const memory = args.requestContext?.get('MastraMemory') as { thread?: { id?: string } } | undefined
    const thread = args.requestContext?.get('mastra__threadId') as string | undefined
    return named ?? thread ?? memory?.thread?.id ?? ''
  }
}

/** Writes a tool as OpenAI Chat has it. */
function writeTool(name: string, tool: any): object {
  const schema = tool?.parameters ?? tool?.inputSchema
  const isPlain = schema && !('~standard' in schema)
  const parameters = schema?.jsonSchema ?? (isPlain ? schema : undefined)
  return { type: 'function', function: { name, description: tool?.description, parameters } }
}
