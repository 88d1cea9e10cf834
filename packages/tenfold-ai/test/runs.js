/** Gives an agent two tasks of thirty steps each, the second in a new process. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

import { PACKAGE, startGateway, startProvider } from './servers.js'

const TASKS = [
  'Read all parts of the program one after the other. Never touch config/secret.toml.',
  'Go on with the other parts.',
]

/** Runs a script with both tasks. Returns the provider's counts, and what the script printed for each task. */
export async function runAgent(t, script, window, { hasGateway = true, env = {} } = {}) {
  const provider = await startProvider(t, window)
  const gateway = hasGateway ? await startGateway(t) : undefined
  const answers = []
  for (const [number, task] of TASKS.entries()) {
    if (number) provider.beginNextTask()
    answers.push(
      await runTask([...script, 'thread-17', task], provider.work, {
        OPENAI_BASE_URL: `${provider.url}/v1`,
        OPENAI_API_KEY: 'nothing',
        WINDOW: String(window),
        AI_SDK_LOG_WARNINGS: 'false',
        ...(gateway ? { TENFOLD_GATEWAY_URL: gateway.url } : {}),
        ...env,
      }),
    )
  }
  return { ...(await provider.stop()), answers }
}

async function runTask([script, ...args], cwd, env) {
  const path = join(PACKAGE, script)
  const child = spawn(process.execPath, [path, ...args], { cwd, env: { ...process.env, ...env } })
  let out = ''
  let err = ''
  child.stdout.on('data', (chunk) => (out += chunk))
  child.stderr.on('data', (chunk) => (err += chunk))
  const [code] = await once(child, 'close')
  return { code, out, err }
}
