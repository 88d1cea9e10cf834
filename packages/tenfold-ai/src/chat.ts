/**
 * Prompts of the AI SDK as messages of OpenAI Chat, and back.
 *
 * A prompt is a list of `LanguageModelV2`, `V3` or `V4` messages, or of `ModelMessage`: they differ in their files and
 * in texts that stand for a list of one part, and both forms are read. A message that comes back as it was sent is the
 * prompt's own object, with its provider options and signatures.
 */

/** A message of a prompt. */
export interface PromptMessage {
  readonly role: string
  readonly content: string | ReadonlyArray<{ readonly type: string }>
}

/** A part of a message: each kind has fields of its own. */
type Part = { readonly type: string } & Readonly<Record<string, any>>

export interface ChatMessage {
  readonly role: string
  readonly content: string | null | readonly ChatPart[]
  readonly reasoning_content?: string
  readonly tool_calls?: readonly ChatCall[]
  readonly tool_call_id?: string
}

type ChatPart = { readonly type: string } & Readonly<Record<string, any>>

interface ChatCall {
  readonly id: string
  readonly type: 'function'
  readonly function: { readonly name: string; readonly arguments: string }
}

/** A prompt as messages of OpenAI Chat, and what is needed to come back from them. */
export interface Sent<M> {
  readonly prompt: readonly M[]
  readonly chat: readonly ChatMessage[]
  /** Of each message of `chat`, which message of the prompt it is of, and its text as JSON. */
  readonly origins: readonly Origin[]
  /** Of each message of the prompt, how many messages of `chat` it is. */
  readonly counts: readonly number[]
  /** Files by what they look like in `chat`. */
  readonly files: ReadonlyMap<string, Part>
}

interface Origin {
  readonly index: number
  readonly json: string
}

/** One message of a view: the message of the prompt that it is, and whether it is unchanged. */
interface Place {
  readonly index: number
  readonly isSame: boolean
}

// -- to chat ----------------------------------------------------------------------------------------------------------

/** Writes a prompt as messages of OpenAI Chat. */
export function toChat<M extends PromptMessage>(prompt: readonly M[]): Sent<M> {
  const chat: ChatMessage[] = []
  const origins: Origin[] = []
  const counts: number[] = []
  const files = new Map<string, Part>()
  for (const [index, message] of prompt.entries()) {
    const written = writeMessage(message, files)
    counts.push(written.length)
    for (const each of written) {
      chat.push(each)
      origins.push({ index, json: JSON.stringify(each) })
    }
  }
  return { prompt, chat, origins, counts, files }
}

/** Writes a message: none if it has nothing that the wire can say, an answer and its results as several. */
function writeMessage(message: PromptMessage, files: Map<string, Part>): ChatMessage[] {
  const parts = getParts(message)
  switch (message.role) {
    case 'system':
      return [{ role: 'system', content: parts.map((part) => part.text ?? '').join('\n') }]
    case 'user': {
      const written = parts.flatMap((part) => writeContent(part, 'user', files))
      return written.length ? [{ role: 'user', content: simplify(written) }] : []
    }
    case 'assistant':
      return writeAnswer(parts, files)
    case 'tool':
      return parts.filter(isResult).map((part) => writeResult(part, files))
    default:
      throw new TypeError(
        `a message of a prompt has the role ${JSON.stringify(message.role)}, which Tenfold does not know`,
      )
  }
}

function writeAnswer(parts: readonly Part[], files: Map<string, Part>): ChatMessage[] {
  const said = parts.flatMap((part) => writeSaid(part))
  const thought = parts.filter((part) => part.type === 'reasoning' && part.text).map((part) => part.text)
  const calls = parts.filter((part) => part.type === 'tool-call').map(writeCall)
  const results = parts.filter(isResult).map((part) => writeResult(part, files)) // of tools that the provider runs
  if (!said.length && !thought.length && !calls.length) return results
  const answer: ChatMessage = {
    role: 'assistant',
    content: said.length ? simplify(said) : null,
    ...(thought.length ? { reasoning_content: thought.join('\n') } : {}),
    ...(calls.length ? { tool_calls: calls } : {}),
  }
  return [answer, ...results]
}

/** Writes what an answer says: its texts, and the names of its files, which the wire does not take from a model. */
function writeSaid(part: Part): ChatPart[] {
  if (part.type === 'text') return part.text ? [{ type: 'text', text: part.text }] : []
  return part.type === 'file' ? [{ type: 'text', text: `[file ${part.filename ?? part.mediaType ?? ''}]` }] : []
}

function writeCall(part: Part): ChatCall {
  const input = typeof part.input === 'string' ? part.input : JSON.stringify(part.input ?? {})
  return { id: part.toolCallId, type: 'function', function: { name: part.toolName, arguments: input } }
}

function isResult(part: Part): boolean {
  return part.type === 'tool-result'
}

function writeResult(part: Part, files: Map<string, Part>): ChatMessage {
  return { role: 'tool', tool_call_id: part.toolCallId, content: writeOutput(part.output, files) }
}

function writeOutput(output: any, files: Map<string, Part>): string | ChatPart[] {
  switch (output?.type) {
    case 'text':
    case 'error-text':
      return output.value ?? ''
    case 'execution-denied':
      return output.reason || 'The tool was not run: the user denied it.'
    case 'content':
      return simplify((output.value as Part[]).flatMap((part) => writeContent(part, 'tool', files)))
    case 'json':
    case 'error-json':
      return JSON.stringify(output.value) ?? ''
    default:
      return typeof output === 'string' ? output : (JSON.stringify(output) ?? '')
  }
}

/** Writes a part that a user or a tool gives: a text or a file. */
function writeContent(part: Part, role: string, files: Map<string, Part>): ChatPart[] {
  if (part.type === 'text') return part.text ? [{ type: 'text', text: part.text }] : []
  const written = writeFile(part)
  if (!written) return []
  files.set(`${role} ${JSON.stringify(written)}`, part)
  return [written]
}

function writeFile(part: Part): ChatPart | undefined {
  const data = readData(part)
  if (data === undefined) return undefined
  const media: string = part.mediaType ?? (/^image/.test(part.type) ? 'image' : '')
  const name: string = part.filename ?? part.title ?? ''
  if (typeof data === 'object') return { type: 'file', file: { filename: name, file_id: JSON.stringify(data) } }
  if (data.startsWith('text:')) return { type: 'text', text: `[file ${name || media}]\n${data.slice(5)}` }
  const url = /^(?:https?|data|gs|s3|file|blob):/i.test(data) ? data : `data:${getFullType(media)};base64,${data}`
  if (media.startsWith('image')) return { type: 'image_url', image_url: { url } }
  if (media.startsWith('audio') && url !== data) {
    return { type: 'input_audio', input_audio: { data, format: media.split('/')[1] ?? 'wav' } }
  }
  return { type: 'file', file: { filename: name || media || 'file', file_data: url } }
}

/** Reads the data of a file: base64, a URL, `text:` and a text, or an object by which the provider knows it. */
function readData(part: Part): string | object | undefined {
  const data = part.data ?? part.image ?? part.url ?? part.fileId ?? part.providerReference
  if (data === undefined || data === null) return undefined
  if (typeof data === 'string') return part.type.endsWith('file-id') ? { id: data } : data
  if (data instanceof URL) return data.href
  if (data instanceof Uint8Array) return toBase64(data)
  if (data instanceof ArrayBuffer) return toBase64(new Uint8Array(data))
  if (data.type === 'text') return `text:${data.text}`
  if (data.type === 'reference') return data.reference
  if (data.type === 'data' || data.type === 'url') return readData({ type: part.type, data: data.data ?? data.url })
  return data
}

function getFullType(media: string): string {
  const [kind = '', subtype = ''] = media.split('/')
  if (subtype && subtype !== '*') return media
  return kind === 'image' ? 'image/png' : kind === 'audio' ? 'audio/wav' : 'application/octet-stream'
}

function toBase64(bytes: Uint8Array): string {
  if (typeof Buffer !== 'undefined')
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
  let text = ''
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000))
  return btoa(text)
}

function simplify(parts: readonly ChatPart[]): string | ChatPart[] {
  const [first, ...others] = parts
  if (!first) return ''
  return !others.length && first.type === 'text' ? (first.text as string) : [...parts]
}

function getParts(message: PromptMessage): readonly Part[] {
  const { content } = message
  return typeof content === 'string' ? [{ type: 'text', text: content }] : (content as readonly Part[])
}

// -- from chat --------------------------------------------------------------------------------------------------------

/** Reads a view as messages of the prompt. Those that stay are the prompt's own objects, and the list if all stay. */
export function fromChat<M extends PromptMessage>(view: readonly ChatMessage[], sent: Sent<M>): readonly M[] {
  const { prompt, counts, files } = sent
  const places = placeMessages(view, sent.origins, sent.chat)
  const out: PromptMessage[] = []
  // A message that the wire cannot say goes where the one before it goes.
  const addSilent = (from: number) => {
    for (let index = from; index < prompt.length && counts[index] === 0; index++) out.push(prompt[index]!)
  }
  addSilent(0)
  for (let at = 0; at < view.length;) {
    const place = places[at]
    if (!place) {
      const end = findEnd(at, (next) => !places[next] && isTool(view[next]) && isTool(view[at]))
      out.push(buildMessage(view.slice(at, end), view, files))
      at = end
      continue
    }
    const end = findEnd(at, (next) => places[next]?.index === place.index)
    const isWhole = end - at === counts[place.index] && places.slice(at, end).every((each) => each?.isSame)
    const original = prompt[place.index]!
    out.push(isWhole ? original : rebuildMessage(original, view.slice(at, end), files))
    addSilent(place.index + 1)
    at = end
  }
  const isUnchanged = out.length === prompt.length && out.every((message, index) => message === prompt[index])
  return isUnchanged ? prompt : (out as M[])

  function findEnd(start: number, belongs: (next: number) => boolean): number {
    let end = start + 1
    while (end < view.length && belongs(end)) end++
    return end
  }
}

function isTool(message: ChatMessage | undefined): boolean {
  return message?.role === 'tool'
}

/**
 * Finds which message of the prompt each message of a view is, from the end: what stays is mostly the newest.
 *
 * A message is found by its JSON, else by the id of its call, in which case it was changed.
 */
function placeMessages(
  view: readonly ChatMessage[],
  origins: readonly Origin[],
  chat: readonly ChatMessage[],
): (Place | undefined)[] {
  const byJson = new Map<string, number[]>()
  const byCall = new Map<string, number[]>()
  const add = (known: Map<string, number[]>, key: string, at: number) => {
    const places = known.get(key)
    if (places) places.push(at)
    else known.set(key, [at])
  }
  for (const [at, { json }] of origins.entries()) {
    add(byJson, json, at)
    for (const key of listCallKeys(chat[at]!)) add(byCall, key, at)
  }
  const out = new Array<Place | undefined>(view.length)
  let before = origins.length
  const take = (places: number[] | undefined): number | undefined => {
    while (places?.length && places.at(-1)! >= before) places.pop()
    return places?.pop()
  }
  for (let at = view.length - 1; at >= 0; at--) {
    const message = view[at]!
    const same = take(byJson.get(JSON.stringify(message)))
    const found =
      same ??
      listCallKeys(message)
        .map((key) => take(byCall.get(key)))
        .find((each) => each !== undefined)
    if (found === undefined) continue
    before = found
    out[at] = { index: origins[found]!.index, isSame: same !== undefined }
  }
  return out
}

function listCallKeys(message: ChatMessage): string[] {
  if (message.role === 'tool') return [`result ${message.tool_call_id}`]
  return (message.tool_calls ?? []).map((call) => `call ${call.id}`)
}

/** Rebuilds a message of which a part was changed or removed. What stays are its own parts. */
function rebuildMessage(
  original: PromptMessage,
  group: readonly ChatMessage[],
  files: ReadonlyMap<string, Part>,
): PromptMessage {
  const results = new Map(group.filter(isTool).map((message) => [message.tool_call_id, message]))
  const answer = group.find((message) => !isTool(message))
  const before = writeMessage(original, new Map())
  const isSame = (message: ChatMessage) => before.some((each) => JSON.stringify(each) === JSON.stringify(message))
  const keepResult = (part: Part): Part[] => {
    const result = results.get(part.toolCallId)
    if (!result) return []
    return [isSame(result) ? part : { ...part, output: readOutput(result, part.output, files) }]
  }
  const keepCall = (part: Part): Part[] => {
    const call = answer?.tool_calls?.find((each) => each.id === part.toolCallId)
    if (!call) return []
    const isKept = writeCall(part).function.arguments === call.function.arguments
    return [isKept ? part : { ...part, input: parseJson(call.function.arguments) }]
  }
  const hasText = answer && JSON.stringify(answer.content) === JSON.stringify(before[0]?.content)
  let texts: Part[] = hasText ? [] : readParts(answer?.content ?? null, 'assistant', files)
  const content = getParts(original).flatMap((part): readonly Part[] => {
    if (isResult(part)) return keepResult(part)
    if (part.type === 'tool-call') return keepCall(part)
    if (hasText || original.role !== 'assistant' || !writeSaid(part).length) return [part]
    const said = texts // all of it stands where the first text stood
    texts = []
    return said
  })
  const firstCall = content.findIndex((part) => part.type === 'tool-call')
  const end = firstCall < 0 ? content.length : firstCall
  return { ...original, content: [...content.slice(0, end), ...texts, ...content.slice(end)] }
}

/** Builds a message that the prompt does not have: a summary, mostly. */
function buildMessage(
  group: readonly ChatMessage[],
  view: readonly ChatMessage[],
  files: ReadonlyMap<string, Part>,
): PromptMessage {
  const message = group[0]!
  if (isTool(message)) {
    const names = new Map(view.flatMap((each) => each.tool_calls ?? []).map((call) => [call.id, call.function.name]))
    const content = group.map((each) => ({
      type: 'tool-result',
      toolCallId: each.tool_call_id,
      toolName: names.get(each.tool_call_id ?? '') ?? 'tool',
      output: readOutput(each, undefined, files),
    }))
    return { role: 'tool', content }
  }
  if (message.role === 'system' || message.role === 'developer') {
    const texts = readParts(message.content, 'system', files).map((part) => part.text)
    return { role: 'system', content: texts.join('\n') }
  }
  const calls = (message.tool_calls ?? []).map((call) => ({
    type: 'tool-call',
    toolCallId: call.id,
    toolName: call.function.name,
    input: parseJson(call.function.arguments),
  }))
  return { role: message.role, content: [...readParts(message.content, message.role, files), ...calls] }
}

function readOutput(message: ChatMessage, before: any, files: ReadonlyMap<string, Part>): object {
  const isError = String(before?.type).startsWith('error')
  if (typeof message.content === 'string' || !message.content) {
    return { type: isError ? 'error-text' : 'text', value: message.content ?? '' }
  }
  return { type: 'content', value: readParts(message.content, 'tool', files) }
}

function readParts(content: ChatMessage['content'], role: string, files: ReadonlyMap<string, Part>): Part[] {
  if (content === null) return []
  if (typeof content === 'string') return content ? [{ type: 'text', text: content }] : []
  return content.map((part) => {
    if (part.type === 'text') return { type: 'text', text: part.text }
    return files.get(`${role} ${JSON.stringify(part)}`) ?? { type: 'text', text: `[${part.type} not shown]` }
  })
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
