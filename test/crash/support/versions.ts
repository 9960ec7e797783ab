// A worker module in versions: a plain file that is rewritten, as by a deploy or an editor, and tells the ledger which version acts.
import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Pawl, type RunHandle } from 'pawl/client'
import { type SuperviseOptions, type Supervisor, type SupervisorEvent, superviseWorkers } from 'pawl/worker'
import { inject } from 'vitest'
import { type Ledger, startLedger } from './ledger.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

/** What a version is made of, besides its name. */
export interface Version {
  /** Code that runs while the module loads. */
  top?: string
  /** The body of `services`. */
  services?: string
}

/** Tools of each effect, and a model that uses the one it is asked to use; all name their version in their answers. */
const textOf = (version: string, { top = '', services = 'return {}' }: Version): string => `
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineAgent, defineTool, defineWorker } from 'pawl'
import { scripted } from 'pawl/testing'
import { z } from 'zod'
${top}
const tell = (stage, told) =>
  fetch(process.env.LEDGER_URL, { method: 'POST', body: JSON.stringify({ stage, pid: process.pid, key: '', note: '${version}', ...told }) })
const tool = (name, effect) =>
  defineTool({
    name,
    description: 'Tells the ledger.',
    input: z.object({}),
    effect,
    async execute(_input, ctx) {
      await tell('entered', { session: ctx.sessionId, what: name, callId: ctx.callId, attempt: ctx.attempt })
      return name + ' by ${version}'
    },
  })
const model = scripted(async ({ sessionId, run, turn, messages }, { attempt }) => {
  await tell('model', { session: sessionId, what: 'model', callId: 'model:' + run + ':' + turn, attempt })
  const [last] = [messages.at(-1).content].flat().slice(-1)
  if (last.type === 'tool_result') return '${version}: ' + [last.content].flat().map((block) => block.text ?? block).join('')
  const [, used] = /^use (\\w+)$/.exec(last.text ?? last) ?? []
  return used ? [{ type: 'tool_use', id: 'toolu_1', name: used, input: {} }] : '${version}: ' + (last.text ?? last)
})
const tools = [tool('look', 'read'), tool('put', 'idempotent'), tool('charge', 'external')]
export default defineWorker({
  agents: [defineAgent({ name: 'versioned', instructions: 'Say which version you are.', model, tools })],
  async services() {
    ${services}
  },
})
`

/** An error that the supervisor logged. */
export interface Logged {
  code: string
  message: string
}

/** The workers of a versioned module. */
export interface Versions {
  ledger: Ledger
  pawl: Pawl
  supervisor: Supervisor
  events: SupervisorEvent[]
  errors: Logged[]
  path(name: string): string
  /** Writes the module, without notifying the workers. */
  write(version: string, made?: Version): Promise<void>
  /** Starts a run that repeats the text, or that uses a tool on `use look`, `use put` or `use charge`. */
  say(text: string, session?: string): Promise<RunHandle>
  close(): Promise<void>
}

/** A folder in which modules find pawl and zod as if they were installed. */
export async function moduleFolder(): Promise<{ root: string; path(name: string): string }> {
  const root = await mkdtemp(join(tmpdir(), 'pawl-versions-'))
  const path = (name: string): string => join(root, name)
  await mkdir(path('node_modules'))
  await symlink(ROOT, path('node_modules/pawl'))
  await symlink(join(ROOT, 'node_modules/zod'), path('node_modules/zod'))
  return { root, path }
}

/** Writes the first version and serves it; `first` may be one that cannot be served. */
export async function startVersions(options: Partial<SuperviseOptions> = {}, first: Version = {}): Promise<Versions> {
  const stack = inject('stack')
  const { root, path } = await moduleFolder()
  const write = (version: string, made: Version = {}) => writeFile(path('agents.mjs'), textOf(version, made))
  await write('v1', first)
  const ledger = await startLedger()
  // The processes inherit this one's environment.
  process.env.LEDGER_URL = ledger.url
  const where = {
    temporal: { address: stack.temporalAddress, namespace: stack.namespace },
    taskQueue: `versions-${randomUUID()}`,
    postgres: stack.databaseUrl,
  }
  const events: SupervisorEvent[] = []
  const errors: Logged[] = []
  const ignore = (): void => undefined
  const supervisor = await superviseWorkers({
    module: path('agents.mjs'),
    ...where,
    logger: { debug: ignore, info: ignore, warn: ignore, error: ({ err }: { err?: Logged }) => void (err && errors.push(err)) },
    onEvent: (event) => void events.push(event),
    ...options,
  })
  const pawl = await Pawl.connect(where)
  return {
    ledger,
    pawl,
    supervisor,
    events,
    errors,
    path,
    write,
    say: (text, session = `versions-${randomUUID()}`) => pawl.session(session, { agent: 'versioned' }).send(text),
    async close() {
      await pawl.close()
      await supervisor.shutdown()
      await ledger.close()
      await rm(root, { recursive: true })
    },
  }
}
