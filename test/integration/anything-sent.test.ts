// A property of the whole protocol: whatever request a session receives, it answers and stores the plain message that follows.
// PAWL_PROPERTY_RUNS sets the number of requests, and PAWL_PROPERTY_BYTES the size that counts as large.
import { randomUUID } from 'node:crypto'
import type { Agent } from 'pawl'
import { ModelError } from 'pawl'
import type { SettledRun, SessionHandle } from 'pawl/client'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openStore, type Store } from '../../src/store/index.ts'
import { argumentOf, PROTOCOL, putIn, type Request, type SentArgument } from '../support/anything.ts'
import { foldedState } from '../support/folded.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { type ApprovalStage, approvalStage } from '../support/approvals.ts'
import { saidIn, use } from '../support/scenes.ts'
import { seed, size } from '../support/sizes.ts'
import { until } from '../support/until.ts'

const { PAWL_PROPERTY_RUNS, PAWL_PROPERTY_BYTES } = process.env
const RUNS = Number(PAWL_PROPERTY_RUNS ?? size(24, 600))
const BYTES = Number(PAWL_PROPERTY_BYTES ?? 400_000)
/** The number of sessions at a time, and of requests that each receives. */
const LANES = 8
const REQUESTS_PER_SESSION = 12
const WAITED = { timeout: 30_000 }

/** What a session is doing when the request arrives. */
const MOMENTS = ['idle', 'running', 'approval', 'answer', 'unknown', 'error', 'closed'] as const
type Moment = (typeof MOMENTS)[number]

interface Case {
  request: Request
  sent: SentArgument
  moment: Moment
}

const cases: fc.Arbitrary<Case> = fc
  .constantFrom(...PROTOCOL)
  .chain((request) =>
    fc.record({ request: fc.constant(request), sent: argumentOf(request.shape, BYTES), moment: fc.constantFrom(...MOMENTS) }),
  )

let here: Deployment
let asker: ApprovalStage
let store: Store

beforeAll(async () => {
  here = await deploy()
  asker = approvalStage({ retry: { maxRetries: 0 } })
  store = openStore({ postgres: here.stack.databaseUrl })
  await here.startWorker({ agents: [asker.agent as Agent] })
})
afterAll(async () => {
  await store?.close()
  await here?.stop()
})

const CALLS: Partial<Record<string, Parameters<typeof use>>> = {
  approval: ['pay', 'it'],
  answer: ['ask', 'it'],
  unknown: ['post', 'it'],
}

function newSession(id?: string): SessionHandle {
  const { session } = asker.play(
    here.pawl,
    {
      model(request) {
        const { content } = request.messages.at(-1) ?? {}
        const moment = typeof content === 'string' ? saidIn(request).at(-1) : undefined
        if (moment === 'error') throw new ModelError('no', 'No.', { retryable: false })
        if (moment === 'running') return new Promise<never>(() => undefined)
        const call = CALLS[moment ?? '']
        return call ? [use(...call)] : 'answered'
      },
      body(tool) {
        if (tool === 'post') throw new Error('the line broke')
      },
    },
    id === undefined ? {} : { id },
  )
  return session
}

/** Brings the session to the moment. Returns the call that it waits for. */
async function reach(session: SessionHandle, moment: Moment): Promise<{ call: string; digest: string }> {
  const none = { call: 't_1_1_0', digest: '' }
  if (moment === 'idle') return none
  if (moment === 'closed') {
    await session.close().catch(() => undefined)
    await until('it is closed', async () => (await session.state()).status === 'closed')
    return none
  }
  const run = await session.send(moment)
  if (moment === 'running') {
    await until('the model is called', async () => (await foldedState(session)).current?.phase === 'model')
    return none
  }
  const settled: SettledRun = await run.settled(WAITED)
  if (settled.status !== 'waiting') return none
  const [pending] = settled.pending
  return { call: pending?.callId ?? '', digest: pending?.digest ?? '' }
}

/** Sends the request, which the server or the session may refuse. Rejects only if no answer arrives in time. */
async function send({ request: { kind, name } }: Case, sessionId: string, payloads: SentArgument['payloads']): Promise<void> {
  const { namespace } = here.stack
  const service = here.temporal.workflowService
  const workflowExecution = { workflowId: `pawl:${sessionId}` }
  const input = { payloads }
  const sending = {
    signal: () => service.signalWorkflowExecution({ namespace, workflowExecution, signalName: name, input, requestId: randomUUID() }),
    query: () => service.queryWorkflow({ namespace, execution: workflowExecution, query: { queryType: name, queryArgs: input } }),
    update: () =>
      service.updateWorkflowExecution({
        namespace,
        workflowExecution,
        waitPolicy: { lifecycleStage: 3 },
        request: { meta: { updateId: randomUUID() }, input: { name, args: input } },
      }),
    start: () =>
      service.startWorkflowExecution({
        namespace,
        workflowId: workflowExecution.workflowId,
        workflowType: { name: 'pawlSession' },
        taskQueue: { name: here.taskQueue },
        input,
        requestId: randomUUID(),
      }),
  }
  await here.temporal.withDeadline(Date.now() + WAITED.timeout, async () => {
    await sending[kind]().catch((error: { code?: number; details?: string }) => {
      const isLate = error.code === 4
      if (isLate) throw error
    })
  })
}

/** Checks that the session answers a plain message, and that all of the session is stored. */
async function expectSound(session: SessionHandle): Promise<void> {
  await session.interrupt().catch(() => undefined)
  const messageId = `plain-${randomUUID()}`
  const run = await session.send('plain', { messageId })
  expect(await run.result(WAITED)).toMatchObject({ text: 'answered' })
  const { seq } = await session.state()
  await until('it is stored', async () => ((await store.head(session.id))?.seq ?? 0) >= seq, WAITED.timeout)
  expect((await store.messages(session.id)).map((message) => message.messageId)).toContain(messageId)
}

async function survive(one: Case, session: SessionHandle): Promise<void> {
  const { request, sent, moment } = one
  const values = { new: randomUUID(), session: session.id }
  if (request.kind === 'start') {
    const fresh = newSession(`odd-${randomUUID()}`)
    await send(one, fresh.id, putIn(sent, values))
    return expectSound(fresh)
  }
  await send(one, session.id, putIn(sent, { ...values, ...(await reach(session, moment)) }))
  return expectSound(session)
}

it(`after any of ${RUNS} odd requests (seed ${seed}, again with PAWL_SEED) a session answers and stores a plain message`, {
  timeout: 600_000,
}, async () => {
  const all = fc.sample(cases, { numRuns: RUNS, seed })
  const failed: string[] = []
  async function lane(): Promise<void> {
    for (let one = all.shift(), survived = 0, session = newSession(); one; one = all.shift(), survived++) {
      if (survived % REQUESTS_PER_SESSION === 0) session = newSession()
      if (survived % REQUESTS_PER_SESSION === 0) await expectSound(session)
      const { request, sent, moment } = one
      await survive(one, session).catch((error: unknown) => {
        const told = error instanceof Error ? error.message : String(error)
        failed.push(
          `${request.kind} ${JSON.stringify(request.name)} while ${moment}, with ${sent.what.slice(0, 300)}: ${told.slice(0, 300)}`,
        )
        session = newSession()
        survived = -1
      })
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  expect(failed).toEqual([])
})
