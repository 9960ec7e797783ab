// The APIs of three providers over HTTP. They refuse what their documentation forbids, and what a filter of theirs forbids. Their model issues
// the ground-truth calls of the retail tasks, with hostile content beside them.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { anthropicProblems, googleProblems, openaiProblems } from '../support/provider-rules.ts'
import { anthropicChunks, streamed, type WireAnswerSpec, WIRES } from '../support/provider-wires.ts'
import { besideCall, REFUSED_MARK, wireCall } from './hostile.ts'
import { readTasks, readToolSpecs } from './workload.ts'

/** The running providers. */
export interface StrictProvider {
  url: string
  /** What their documentation forbids and was sent all the same. */
  problems: string[]
  /** How many requests their filter refused. */
  filtered(): number
  /** Called whenever a request is refused by the filter. */
  onFiltered(listener: () => void): void
  stop(): Promise<void>
}

interface Api {
  name: string
  path: RegExp
  problemsIn(body: Record<string, unknown>): string[]
  chunks(spec: WireAnswerSpec): string[]
  refusal(message: string): object
  brokenArguments: boolean
}

const wireNamed = (name: string) => WIRES.find((wire) => wire.name.includes(name)) ?? WIRES[0]
const ofWire = (name: string): Pick<Api, 'chunks' | 'refusal'> => ({
  chunks: (spec) => wireNamed(name)?.chunks(spec) ?? [],
  refusal: (message) => wireNamed(name)?.refusal(400, name === 'Google' ? 'INVALID_ARGUMENT' : 'invalid_request_error', message) ?? {},
})

const APIS: readonly Api[] = [
  {
    name: 'Anthropic',
    path: /^\/v1\/messages/,
    problemsIn: anthropicProblems,
    chunks: anthropicChunks,
    refusal: (message) => ({ type: 'error', error: { type: 'invalid_request_error', message } }),
    brokenArguments: true,
  },
  { name: 'OpenAI', path: /^\/v1\/responses/, problemsIn: openaiProblems, ...ofWire('Responses'), brokenArguments: true },
  { name: 'Google', path: /^\/v1beta\//, problemsIn: googleProblems, ...ofWire('Google'), brokenArguments: false },
]

/** Starts them on a free port. `delayMs`: how long an answer takes, at most. */
export async function startStrictProvider({ delayMs = 0 } = {}): Promise<StrictProvider> {
  const tasks = new Map(readTasks().map((task) => [task.id, task]))
  const tools = new Set(readToolSpecs().map(({ name }) => name))
  const problems: string[] = []
  const listeners: (() => void)[] = []
  let filtered = 0

  /** The model's answer: the next call of the task, of which the request contains the ones before. */
  function answerTo(text: string, api: Api): WireAnswerSpec {
    const task = tasks.get(/Task ([\w-]+):/.exec(text)?.[1] ?? '')
    if (!task) return { text: ['Which task?'], stop: 'stop', usage: { input: 10, output: 2 } }
    const step = callsIn(JSON.parse(text)).filter((name) => tools.has(name)).length
    const action = task.actions[step]
    const usage = { input: text.length, output: 10 }
    if (!action) return { text: [`Done: ${task.outputs.join(', ')}`], stop: 'stop', usage }
    const number = Buffer.from(task.id).reduce((sum, byte) => sum + byte, step * 3)
    const { calls, ...beside } = besideCall(number, api.brokenArguments)
    return { ...beside, calls: [wireCall(`toolu_${step}`, action.name, action.kwargs), ...calls], stop: 'stop', usage }
  }

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    let text = ''
    for await (const chunk of req) text += chunk
    const api = APIS.find(({ path }) => path.test(req.url ?? ''))
    if (!api) return void res.writeHead(404).end()
    const refuse = (message: string) => {
      res.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify(api.refusal(message)))
    }
    const found = api.problemsIn(JSON.parse(text))
    problems.push(...found.map((problem) => `${api.name}: ${problem}`))
    if (found.length > 0) return refuse(String(found[0]))
    await new Promise((done) => setTimeout(done, delayMs))
    if (text.includes(REFUSED_MARK)) {
      filtered += 1
      for (const listener of listeners) listener()
      return refuse('The content cannot be processed.')
    }
    streamed(api.chunks(answerTo(text, api)))(res)
  }

  const server = createServer((req, res) => void answer(req, res).catch(() => res.destroy()))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    problems,
    filtered: () => filtered,
    onFiltered: (listener) => void listeners.push(listener),
    async stop() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** The names of the calls in a request, whichever API it is for. */
function callsIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(callsIn)
  if (typeof value !== 'object' || value === null) return []
  const { type, name, functionCall, messages, input, contents, content, parts } = value as Record<string, unknown>
  if (type === 'tool_use' || type === 'function_call') return [String(name)]
  if (functionCall) return [String((functionCall as { name: unknown }).name)]
  return [messages, input, contents, content, parts].flatMap(callsIn)
}
