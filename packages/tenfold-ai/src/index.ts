/** Keeps agents of the Vercel AI SDK running past their model's window, through a Tenfold gateway. */

export { tenfoldMiddleware, tenfoldPrepareStep } from './ai-sdk.js'
export type { MiddlewareOptions, PrepareStepOptions, StepInput } from './ai-sdk.js'
export { TenfoldError } from './conversations.js'
export type { TenfoldOptions, ViewReport } from './conversations.js'
