// What a project exports without naming its type, with `declaration: true`: each inferred type must have a name that the project can import.
import { defineAgent, defineHook, defineSlice, defineTool, defineWorker, sections, ToolError } from 'pawl'
import { deploymentStatus, doctor, migrateStore, Pawl } from 'pawl/client'
import { aiSdk, anthropic } from 'pawl/models'
import { apiKeyAuthorize, createHandler, nodeListener } from 'pawl/service'
import { calls, crashTest, lastResult, scripted, startStack } from 'pawl/testing'
import { PawlChatTransport } from 'pawl/ui'
import { createWorker, preflight, superviseWorkers } from 'pawl/worker'
import { z } from 'zod'

// Declarations.
export const read = defineTool({
  name: 'find_order',
  description: 'Find an order.',
  input: z.object({ orderId: z.string() }),
  effect: 'read',
  execute: ({ orderId }, ctx) => ({ orderId, tenant: ctx.context }),
})
export const external = defineTool.withTypes<{ context: { tenantId: string }; services: { payments: { refund(id: string): string } } }>()({
  name: 'refund_order',
  description: 'Refund an order.',
  input: z.object({ orderId: z.string(), cents: z.number() }),
  effect: 'external',
  approval: ({ cents }) => cents > 100,
  execute: ({ orderId }, ctx) => ctx.services.payments.refund(orderId),
  verify: async () => ({ happened: 'unknown' }),
})
export const answered = defineTool({
  name: 'ask_address',
  description: 'Ask for the address.',
  input: z.object({}),
  effect: 'read',
  execute: 'client',
  output: z.object({ street: z.string() }),
})
export const typedTool = defineTool.withTypes<{ context: { tenantId: string } }>()
export const typedHook = defineHook.withTypes<{ services: { log: string[] } }>()
export const typedAgent = defineAgent.withTypes<{ services: { log: string[] } }>()
export const hook = typedHook({ on: 'preToolUse', tools: 'refund_order', run: () => ({ deny: 'No.' }) })
export const slice = defineSlice({
  name: 'refunds',
  version: 1,
  schema: z.object({ count: z.number() }),
  initial: { count: 0 },
  on: { tool_completed: (state) => ({ count: state.count + 1 }) },
})
export const support = defineAgent({
  name: 'support',
  model: 'claude-sonnet-5-5',
  instructions: (view) => `${sections.plan(view)} ${view.progress.incomplete.length}`,
  tools: [read, external, answered],
  hooks: [hook],
  slices: [slice],
  context: z.object({ tenantId: z.string() }),
  output: z.object({ topic: z.enum(['refund', 'other']) }),
  plan: true,
})
export const worker = defineWorker({ agents: [support], services: { payments: { refund: (id: string) => id }, log: [] as string[] } })
export const parts = [sections.plan, sections.memory, sections.progress]
export const failure = new ToolError('No.', { happened: false })
export const models = {
  anthropic: anthropic('claude-sonnet-5-5'),
  scripted: scripted(() => calls('find_order', { orderId: 'A-1' })),
  result: lastResult([]),
}
export const adapt = (model: Parameters<typeof aiSdk>[0]) => aiSdk(model)

// What a worker, a handler and a test return.
export const started = await createWorker({ agents: [support], services: { payments: { refund: (id) => id }, log: [] } })
export const status = started.status()
export const supervisor = await superviseWorkers({ module: './worker.js' })
export const report = await preflight()
export const stack = await startStack()
export const tested = await crashTest({
  module: './worker.js',
  script: ['Hello.'],
  world: { reset() {}, snapshot: () => null, effects: () => [] },
})
export const transport = new PawlChatTransport()
export const shown = await transport.messages('chat')
export const shownPage = await transport.messagesPage('chat')
export const chunks = await transport.sendMessages({ chatId: 'chat', trigger: 'submit-message', messages: [] })
export const resumed = await transport.reconnectToStream({ chatId: 'chat' })

// What the client returns.
export const pawl = await Pawl.connect()
export const handler = createHandler({ pawl, authorize: apiKeyAuthorize(pawl) })
export const listener = nodeListener(handler)
export const authorize = apiKeyAuthorize(pawl)
export const { apiKeys } = pawl
export const health = await doctor()
export const deployment = await deploymentStatus()
export const migrated = await migrateStore({ postgres: '' })
export const reach = await pawl.reach()
export const sessions = pawl.sessions.list()
export const sessionsPage = await pawl.sessions.list()
export const listed = await pawl.sessions.get('s')
export const overview = await pawl.overview()
export const messages = await pawl.messages({ session: 's' })
export const checkpoints = await pawl.checkpoints({ session: 's' })
export const errors = await pawl.errors()
export const failures = await pawl.failures()
export const toolCalls = await pawl.toolCalls()
export const pending = await pawl.pending.list()
export const usage = await pawl.usage({ by: 'day' })
export const feed = pawl.events()
export const recovered = await pawl.recover({ by: 'me' })
export const rebuilt = await pawl.rebuild()
export const pruned = await pawl.prune({ olderThan: '30d' })
export const erased = await pawl.erase('s', { by: 'me' })
export const key = await apiKeys.create({ name: 'backend' })
export const keys = await apiKeys.list()
export const revoked = await apiKeys.revoke('k')
export const found = await apiKeys.findAll(['k'])

// What sessions and runs return.
export const session = pawl.session('s', { agent: support, context: { tenantId: 'acme' } })
export const untyped = pawl.session('s')
export const run = await session.send('Hello.')
export const result = await run.result()
export const settled = await run.settled()
export const runEvents = run.events()
export const runStream = run.stream()
export const sessionState = await session.state()
export const sessionStatus = await session.status()
export const runReport = await session.runReport()
export const transcript = await session.messages()
export const plan = await session.plan()
export const plans = await session.plans()
export const memory = await session.memory()
export const memoryVersions = await session.memoryVersions()
export const before = await session.messagesUpTo({ run: 1 })
export const blob = await session.blob('sha')
export const sliceValue = await session.slice(slice)
export const sliceMoments = await session.slice(slice, { all: true })
export const events = session.events()
export const watched = session.watch()
export const regenerated = await session.regenerate()
export const paused = await session.pause()
export const unpaused = await session.unpause()
export const raised = await session.raise({ maxUsd: 1 })
export const budgets = await session.budgets()
export const summary = await session.resume()
export const checkpoint = await session.checkpoint('before the refund')
export const moved = await session.rollback({ run: 1 })
export const fork = await session.fork()
export const approved = await session.approve('t_1_1_0', { digest: 'd' })
export const sessionCheckpoints = await session.checkpoints()
export const latestCheckpoint = await session.latestCheckpoint()
export const compactions = await session.compactions()
export const sessionToolCalls = await session.toolCalls()
export const sessionErrors = await session.errors()
export const archivedMessages = await session.archivedMessages()

// What a project writes around them.
export async function* spoken() {
  for await (const item of session.watch()) yield item
}
export const newest = async () => (await pawl.errors({ limit: 1 })).items[0]
export const stateOf = async (id: string) => ({ state: await pawl.session(id).state(), status: await pawl.session(id).status() })
