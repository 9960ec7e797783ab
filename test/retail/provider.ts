// A provider's API over HTTP whose model issues the ground-truth calls of the retail tasks. Some of its streams are cut short.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Message } from '../../src/session/content.ts'
import { streamed, WIRES } from '../support/provider-wires.ts'
import { nextStep } from './script.ts'
import { readTasks } from './workload.ts'

/** A running provider. */
export interface RetailProvider {
  url: string
  /** How many answers it has sent completely. */
  answered(): number
  stop(): Promise<void>
}

/** One of this many answers is cut short. */
const CUT_EVERY = 9

interface ChatMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content?: string | { text?: string }[] | null
}

/** Starts one on a free port. */
export async function startRetailProvider(): Promise<RetailProvider> {
  const wire = WIRES.find(({ name }) => name.includes('Chat Completions')) ?? WIRES[0]
  const tasks = new Map(readTasks().map((task) => [task.id, task]))
  let requests = 0
  let answered = 0

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    let text = ''
    for await (const chunk of req) text += chunk
    const { messages } = JSON.parse(text) as { messages: ChatMessage[] }
    const content = nextStep(tasks, messages.flatMap(messageOf))
    const chunks =
      wire?.chunks({
        text: content.flatMap((block) => (block.type === 'text' ? [block.text] : [])),
        calls: content.flatMap((block) =>
          block.type === 'tool_use' ? [{ id: block.id, name: block.name, json: JSON.stringify(block.input).match(/.{1,40}/gs) ?? [] }] : [],
        ),
        stop: 'stop',
        usage: { input: text.length, output: 10 },
      }) ?? []
    requests += 1
    if (requests % CUT_EVERY === 0) return streamed(chunks.slice(0, chunks.length / 2), 'destroy')(res)
    answered += 1
    streamed(chunks)(res)
  }

  const server = createServer((req, res) => void answer(req, res).catch(() => res.destroy()))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    answered: () => answered,
    async stop() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

function messageOf({ role, content }: ChatMessage): Message[] {
  if (role === 'system') return []
  const text = typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join('')
  return [role === 'assistant' ? { role, content: [{ type: 'text', text }] } : { role: 'user', content: role === 'tool' ? '' : text }]
}
