/** The servers that the tests talk to: a provider and a gateway of the repository, and a fake of the view API. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export const PACKAGE = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const ROOT = resolve(PACKAGE, '../..')
const PYTHON = process.env.TENFOLD_PYTHON ?? join(ROOT, '.venv/bin/python')

/** A folder that the end of a test removes. */
export function makeFolder(t) {
  const folder = mkdtempSync(join(tmpdir(), 'tenfold-ai-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function run(t, args, env) {
  const child = spawn(PYTHON, args, { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'pipe'] })
  const said = []
  let waiting = []
  const tell = () => {
    const left = child.exitCode === null ? undefined : `${args.join(' ')} ended: ${said.join('\n')}`
    waiting = waiting.filter(({ isWanted, resolve, reject }) => {
      const found = said.find(isWanted)
      if (found !== undefined) resolve(found)
      else if (left !== undefined) reject(new Error(left))
      return found === undefined && left === undefined
    })
  }
  const take = (line) => {
    said.push(line)
    tell()
  }
  createInterface({ input: child.stdout }).on('line', take)
  createInterface({ input: child.stderr }).on('line', take)
  child.on('close', tell)
  /** Waits for a line that the program prints. */
  const read = (isWanted) =>
    new Promise((resolve, reject) => {
      waiting.push({ isWanted, resolve, reject })
      tell()
    })
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGTERM')
      await once(child, 'exit')
    }
  }
  t.after(stop)
  return { child, read, stop }
}

/** Starts the scripted provider. `stop` returns what was asked of it. */
export async function startProvider(t, window) {
  const work = join(makeFolder(t), 'work')
  const env = { PYTHONPATH: `${join(ROOT, 'src')}:${ROOT}` }
  const { child, read } = run(t, [join(PACKAGE, 'test/provider.py'), String(window), work], env)
  const url = await read((line) => line.startsWith('http'))
  return {
    url,
    work,
    beginNextTask: () => child.stdin.write('next\n'),
    async stop() {
      child.stdin.end()
      return JSON.parse(await read((line) => line.startsWith('{')))
    },
  }
}

/** Starts `tenfold serve` on a free port, over a store of its own. */
export async function startGateway(t, { key, store = join(makeFolder(t), 'tenfold.db') } = {}) {
  const env = { TENFOLD_STORE: store, PYTHONPATH: join(ROOT, 'src'), ...(key ? { TENFOLD_GATEWAY_KEY: key } : {}) }
  const { read, stop } = run(t, ['-u', '-m', 'tenfold', 'serve', '--port', '0'], env)
  const line = await read((text) => text.includes('listens on http'))
  return { url: /http:\/\/[^;\s]+/.exec(line)[0], store, stop }
}

/** Starts a fake of the view API. `answer` gets each question and returns an answer, or never. */
export async function startFake(t, answer) {
  const questions = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    questions.push({ headers: request.headers, body: JSON.parse(body) })
    const { status = 200, json, text } = await answer(JSON.parse(body), questions.length)
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(text ?? JSON.stringify(json))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${server.address().port}`, questions }
}
