// What a backend's compiler knows: each `@ts-expect-error` fails the check if the line below it compiles.
import {
  type Agent,
  type AgentContext,
  type AnswerOf,
  defineAgent,
  defineHook,
  defineTool,
  defineWorker,
  type OutputOf,
  type ServicesOf,
  type Tool,
  type ToolContext,
  type ToolOptions,
} from 'pawl'
import type { Pawl } from 'pawl/client'
import { scripted } from 'pawl/testing'
import { createWorker, type CreateWorkerOptions, runWorker, superviseWorkers } from 'pawl/worker'
import { z } from 'zod'

type Is<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
/** Compiles only for `true`. */
function assert<T extends true>(): T | undefined {
  return undefined
}

interface Payments {
  refund(orderId: string, key: string): Promise<{ id: string; cents: number }>
  find(key: string): Promise<{ id: string; cents: number } | null>
}
interface Tenant {
  tenantId: string
}
const tenant = z.object({ tenantId: z.string() })
const model = scripted(() => 'Hello.')
const order = z.object({ orderId: z.string() })

// Plain tools need no types.
const plain = defineTool({
  name: 'plain',
  description: 'Plain.',
  input: order,
  effect: 'external',
  approval: ({ orderId }) => orderId.length > 3,
  execute: (input, ctx) => ctx.services.payments.refund(input.orderId, ctx.idempotencyKey) as Promise<{ id: string }>,
  effectId: (refund) => refund.id,
  verify: async (_input, ctx) => {
    const found = (await ctx.services.payments.find(ctx.idempotencyKey)) as { id: string } | null
    return found ? { happened: true, result: found } : { happened: false }
  },
})

// Typed services and context.
const typed = defineTool.withTypes<{ services: { payments: Payments }; context: Tenant }>()
const refund = typed({
  name: 'refund',
  description: 'Refund.',
  input: order,
  effect: 'external',
  approval(input, ctx) {
    assert<Is<typeof ctx.context, Tenant>>()
    // @ts-expect-error The context has no such field.
    if (ctx.context.tenant) return true
    // @ts-expect-error The service's name is misspelt.
    if (ctx.services.paymets) return true
    return input.orderId === ctx.context.tenantId
  },
  execute(input, ctx) {
    assert<Is<typeof ctx.context, Tenant>>()
    assert<Is<typeof ctx.services, { payments: Payments }>>()
    // @ts-expect-error The service's name is misspelt.
    void ctx.services.paymets
    // @ts-expect-error The service has no such method.
    void ctx.services.payments.refnd
    // @ts-expect-error The input has no such field.
    void input.order
    return ctx.services.payments.refund(input.orderId, ctx.idempotencyKey)
  },
  effectId(result) {
    assert<Is<typeof result, { id: string; cents: number }>>()
    return result.id
  },
  toModel: (result, ctx) => `${result.cents} for ${ctx.context.tenantId}`,
  async verify(_input, ctx) {
    const found = await ctx.services.payments.find(ctx.idempotencyKey)
    return found ? { happened: true, result: found } : { happened: false }
  },
  onUnknown: 'ask',
})
typed({
  name: 'other',
  description: 'Other.',
  input: order,
  effect: 'external',
  // @ts-expect-error It returns something other than what `verify` finds.
  execute: (input, ctx) => ctx.services.payments.refund(input.orderId, ctx.idempotencyKey),
  verify: async () => ({ happened: true, result: 7 }),
})

// `output` constrains what `execute` returns, and types a client's answer.
const receipt = z.object({ id: z.string(), cents: z.number() })
const fits = { name: 'fits', description: 'Fits.', input: order, output: receipt } as const
defineTool({ ...fits, effect: 'read', execute: ({ orderId }) => ({ id: orderId, cents: 1 }) })
defineTool({ ...fits, effect: 'read', execute: async ({ orderId }) => ({ id: orderId, cents: 1 }) })
// @ts-expect-error `cents` is missing.
defineTool({ ...fits, effect: 'read', execute: ({ orderId }) => ({ id: orderId }) })
// @ts-expect-error `cents` is a string.
defineTool({ ...fits, effect: 'read', execute: async ({ orderId }) => ({ id: orderId, cents: '1' }) })
const address = defineTool({
  name: 'address',
  description: 'Ask for an address.',
  input: order,
  effect: 'read',
  execute: 'client',
  output: z.object({ street: z.string() }),
  toModel: (answer) => answer.street,
})
assert<Is<AnswerOf<typeof address>, { street: string }>>()

// Options that belong to effects other than the tool's.
const read = { name: 'look', description: 'Look.', input: order, execute: () => 'x' } as const
defineTool({ ...read, effect: 'read' })
// @ts-expect-error A read has nothing to verify.
defineTool({ ...read, effect: 'read', verify: () => ({ happened: false }) })
// @ts-expect-error A read is never unknown.
defineTool({ ...read, effect: 'read', onUnknown: 'ask' })
// @ts-expect-error A read has no verify to wait for.
defineTool({ ...read, effect: 'read', settleAfter: '5s' })
// @ts-expect-error A read has no verify to limit.
defineTool({ ...read, effect: 'read', verifyTimeout: '5s' })
// @ts-expect-error An idempotent tool has no verify to retry.
defineTool({ ...read, effect: 'idempotent', verifyRetries: 1 })
// @ts-expect-error A read has no key.
defineTool({ ...read, effect: 'read', idempotency: 'session' })
// @ts-expect-error An idempotent tool is repeated, not verified.
defineTool({ ...read, effect: 'idempotent', verify: () => ({ happened: false }) })
// @ts-expect-error A tool must say what its effect is.
defineTool(read)
// @ts-expect-error There is no such effect.
defineTool({ ...read, effect: 'write' })
// @ts-expect-error There is no such option.
defineTool({ ...read, effect: 'read', timeoutMs: 5 })
// @ts-expect-error That is not a duration.
defineTool({ ...read, effect: 'read', timeout: 'soon' })
// Options of tools that run in a worker, on a tool that a client answers.
const asked = { name: 'ask', description: 'Ask.', input: order, execute: 'client' } as const
defineTool({ ...asked, effect: 'external', approval: true, timeout: '2d', idempotency: 'session', effectId: String, toModel: String })
// @ts-expect-error No worker calls a client tool, so there is nothing to verify.
defineTool({ ...asked, effect: 'external', verify: () => ({ happened: false }) })
// @ts-expect-error A call that a client answers is never unknown.
defineTool({ ...asked, effect: 'external', onUnknown: 'tell_model' })
// @ts-expect-error A client tool has no verify to wait for.
defineTool({ ...asked, effect: 'external', settleAfter: '5s' })
// @ts-expect-error A client tool has no verify to limit.
defineTool({ ...asked, effect: 'external', verifyTimeout: '5s' })
// @ts-expect-error A client tool has no verify to retry.
defineTool({ ...asked, effect: 'external', verifyRetries: 1 })
// @ts-expect-error A client tool has no attempts to retry.
defineTool({ ...asked, effect: 'read', retry: { maxRetries: 1 } })
// Who answers may be decided at run time.
defineTool({ ...read, effect: 'read', execute: process.env.BROWSER ? 'client' : ({ orderId }) => orderId })

// Options of approvals.
defineTool({ ...read, effect: 'read', approval: true, approvalTimeout: '8h', onExpiry: 'error' })
defineTool({ ...read, effect: 'read', approval: ({ orderId }) => orderId !== '', approvalTimeout: '8h' })
defineTool({ ...read, effect: 'read', approval: process.env.STRICT === '1', approvalTimeout: '8h' })
defineTool({ ...read, effect: 'read', ...(process.env.STRICT === '1' && { approval: true }) })
// @ts-expect-error There is no approval whose request could expire.
defineTool({ ...read, effect: 'read', approvalTimeout: '8h' })
// @ts-expect-error There is no approval whose request could expire.
defineTool({ ...read, effect: 'read', onExpiry: 'error' })
// @ts-expect-error A client tool without an approval requests none, either.
defineTool({ ...asked, effect: 'read', approvalTimeout: '8h' })

// A function may pass on the options of a tool.
export function renamed(options: ToolOptions<typeof order, string, 'read'>): Tool {
  return defineTool({ ...options, name: `my_${options.name}` })
}

// An effect that is decided at run time allows any of them.
export function anyEffect(effect: 'read' | 'idempotent' | 'external'): Tool {
  return defineTool({ ...read, effect, ...(effect === 'external' && { verify: () => ({ happened: false as const }) }) })
}

// Agents.
export const support = defineAgent({
  name: 'support',
  context: tenant,
  model: (ctx) => (ctx.context.tenantId === 'acme' ? model : 'claude-sonnet-5-5'),
  instructions({ state }, ctx) {
    assert<Is<typeof ctx.context, { tenantId: string }>>()
    // @ts-expect-error The context has no such field.
    void ctx.context.tenant
    return `Help ${ctx.context.tenantId}, run ${state.run}.`
  },
  tools: [plain, refund, address],
  retry: { baseDelay: '500ms' },
  checkpoint: { every: '60s' },
})
defineAgent.withTypes<{ services: { payments: Payments } }>()({
  name: 'typed',
  model,
  instructions: (_state, ctx) => {
    assert<Is<typeof ctx.services, { payments: Payments }>>()
    // @ts-expect-error The service's name is misspelt.
    return String(ctx.services.paymets)
  },
})
// @ts-expect-error `refund` expects a tenant in the context, and the agent declares none.
defineAgent({ name: 'bare', model, instructions: '', tools: [refund] })
// @ts-expect-error The agent's context has another field.
defineAgent({ name: 'other', model, instructions: '', tools: [refund], context: z.object({ user: z.string() }) })
const bare = defineAgent({ name: 'bare', model, instructions: '', tools: [plain, address] })

// A worker's services are those that its agents' tools and hooks expect.
declare const payments: Payments
export default defineWorker({ agents: [support, bare], services: () => ({ payments }) })
defineWorker({ agents: [support], services: { payments, mail: 'any more', dispose() {} } })
defineWorker({ agents: [support, bare], services: async () => ({ payments, dispose: async () => undefined }) })
// @ts-expect-error The service's name is misspelt.
defineWorker({ agents: [support, bare], services: { paymets: payments } })
// @ts-expect-error The service's name is misspelt.
defineWorker({ agents: [support], services: () => ({ paymets: payments }) })
// @ts-expect-error The service has another type.
defineWorker({ agents: [support], services: async () => ({ payments: { refund: () => null } }) })
// @ts-expect-error The tools expect services.
defineWorker({ agents: [support] })
// Agents whose tools declare no services need none, and may have any.
defineWorker({ agents: [bare] })
defineWorker({ agents: [bare], services: { anything: true } })
// @ts-expect-error Services are an object.
defineWorker({ agents: [bare], services: 7 })
// What agents need comes together, from their tools, their hooks and their own functions.
const mailing = defineTool.withTypes<{ services: { mail: { send(to: string): void } } }>()({
  ...read,
  effect: 'read',
  execute: ({ orderId }, ctx) => ctx.services.mail.send(orderId),
})
const watching = defineHook.withTypes<{ services: { log: string[] } }>()({
  on: 'turnStart',
  run: ({ turn }, ctx) => void ctx.services.log.push(String(turn)),
})
const mixed = defineAgent.withTypes<{ services: { flags: Set<string> } }>()({
  name: 'mixed',
  context: tenant,
  model,
  instructions: (_state, ctx) => [...ctx.services.flags].join(),
  tools: [plain, mailing, refund],
  hooks: [watching],
})
const mail = { send: (to: string) => void to }
const log: string[] = []
assert<Is<keyof ServicesOf<typeof mixed>, 'payments' | 'mail' | 'log' | 'flags'>>()
defineWorker({ agents: [mixed, bare, support], services: { payments, mail, log, flags: new Set<string>() } })
// @ts-expect-error A tool's service is missing.
defineWorker({ agents: [mixed], services: { payments, log, flags: new Set<string>() } })
// @ts-expect-error The hook's service is missing.
defineWorker({ agents: [mixed], services: { payments, mail, flags: new Set<string>() } })
// @ts-expect-error The agent's own service is missing.
defineWorker({ agents: [mixed], services: { payments, mail, log } })
const mailer = defineAgent({ name: 'mailer', model, instructions: '', tools: [mailing] })
// @ts-expect-error The second agent's service is missing.
defineWorker({ agents: [support, mailer], services: { payments } })
// Agents and tools may lose their types on the way.
const some: Agent[] = [support, mixed]
const few: Tool[] = [refund, mailing]
defineWorker({ agents: some })
defineWorker({ agents: [defineAgent({ name: 'few', model, instructions: '', tools: few })] })
// A list keeps them.
const list = [support, mailer]
defineWorker({ agents: list, services: { payments, mail } })
// @ts-expect-error A service is missing.
defineWorker({ agents: list, services: { mail } })

/** The same for a worker in the own process. */
export async function ownProcess(options: CreateWorkerOptions): Promise<void> {
  await createWorker({ agents: [support, mailer], services: { payments, mail }, taskQueue: 'q' })
  await runWorker({ agents: [bare], taskQueue: 'q' })
  await createWorker({ ...options, taskQueue: 'q' })
  // @ts-expect-error The service's name is misspelt.
  await createWorker({ agents: [support], services: { paymets: payments } })
  // @ts-expect-error The tools expect services.
  await runWorker({ agents: [support], taskQueue: 'q' })
  // @ts-expect-error There is no such option.
  await runWorker({ agents: [bare], queue: 'q' })
}

export async function backend(pawl: Pawl): Promise<void> {
  const context = { tenantId: 'acme' }
  // By name, by the agent itself, and without types.
  pawl.session<typeof support>('s', { agent: 'support', context })
  pawl.session('s', { agent: support, context, tags: ['vip'] })
  pawl.session('s', { agent: bare })
  pawl.session<typeof bare>('s', { agent: 'bare' })
  pawl.session('s', { agent: 'support', context: { anything: true } })
  pawl.session('s', { agent: process.env.AGENT ?? 'support' })
  pawl.session<typeof support>('s')
  pawl.session('s')
  pawl.session()
  // @ts-expect-error The agent has another name.
  pawl.session<typeof support>('s', { agent: 'suport', context })
  // @ts-expect-error The context is missing.
  pawl.session<typeof support>('s', { agent: 'support' })
  // @ts-expect-error The context is missing.
  pawl.session('s', { agent: support })
  // @ts-expect-error The context has another field.
  pawl.session<typeof support>('s', { agent: 'support', context: { tenant: 'acme' } })
  // @ts-expect-error The context has another field.
  pawl.session('s', { agent: support, context: { tenant: 'acme' } })
  // @ts-expect-error A date is not JSON.
  pawl.session('s', { agent: 'support', context: new Date() })
  // @ts-expect-error There is no such option.
  pawl.session('s', { agent: 'support', idleTimeoutMs: 5 })

  const session = pawl.session('s', { agent: support, context, idleTimeout: '2d' })
  await session.answer('t_1_1_0', { anything: true })
  await session.answer<typeof address>('t_1_1_0', { street: 'Main Street 1' })
  // @ts-expect-error The answer has no street.
  await session.answer<typeof address>('t_1_1_0', { city: 'Springfield' })
  const run = await session.send('hello')
  const outcome = await run.result({ timeout: '60s' })
  const { text } = outcome
  assert<Is<typeof text, string>>()
  const given = await (await pawl.session<typeof classifier>('c', { agent: 'classifier' }).send('hello')).result()
  assert<Is<typeof given.output, { topic: 'refund' | 'other'; at: string; tags: string[]; note?: string | undefined }>>()
  const settled = await (await pawl.session('c', { agent: classifier }).send('hello')).settled()
  if (settled.status === 'completed') assert<Is<typeof settled.output.topic, 'refund' | 'other'>>()
  assert<Is<(typeof outcome)['output'], undefined>>()
  const untyped = await (await pawl.session('c').send('hello')).result()
  assert<Is<typeof untyped.output, unknown>>()
  // @ts-expect-error Durations have no unit in their name.
  await run.settled({ timeoutMs: 60_000 })
  await superviseWorkers({ module: './worker.js', processes: 2, stuckLoop: '30s' })
  // @ts-expect-error There is no such option.
  await superviseWorkers({ module: './worker.js', executors: 2 })
}

// An output is what the schema makes of the model's arguments, as JSON.
export const classifier = defineAgent({
  name: 'classifier',
  model,
  instructions: 'Classify.',
  output: z.object({
    topic: z.enum(['refund', 'other']),
    at: z.iso.datetime().transform((text) => new Date(text)),
    tags: z.array(z.string()).default([]),
    note: z.string().optional(),
  }),
})
assert<Is<OutputOf<typeof classifier>['topic'], 'refund' | 'other'>>()
assert<Is<OutputOf<typeof support>, undefined>>()
// @ts-expect-error That is not a schema.
defineAgent({ name: 'a', model, instructions: '', output: { type: 'object' } })

/** Helpers can name the types of their parameters. */
export function tenantOf(ctx: AgentContext<Tenant> | ToolContext<Tenant>): string {
  return ctx.context.tenantId
}
