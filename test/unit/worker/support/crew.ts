// A pool with executors and leases that a test plays.
import { vi } from 'vitest'
import { type JobKind, type JobOrder, type JobOutcome, type JobSubject, nameOfSubject } from '../../../../src/calls/jobs.ts'
import type { AttemptReport } from '../../../../src/session/attempts.ts'
import { type Dispatcher, dispatcherTo } from '../../../../src/worker/orchestrator/executors/dispatch.ts'
import type { Lease, Leases } from '../../../../src/worker/orchestrator/heartbeats/leases.ts'
import { type Pool, type PoolNeeds, startPool } from '../../../../src/worker/orchestrator/executors/pool.ts'
import { requestsOver } from '../../../../src/worker/orchestrator/executors/requests.ts'
import type { Ask, FromExecutor, HeldJobReport, ToExecutor } from '../../../../src/worker/protocol.ts'
import { mortalLine } from './mortal.ts'

/** What has happened to the attempt of a call, as its lease knows. */
interface Leased {
  announced: number
  begun: number
  released: boolean
  recorded: Partial<AttemptReport>[]
  stop(why: 'cancelled' | 'lost'): void
}

/** An executor that a test plays. */
export interface Played {
  received: ToExecutor[]
  /** The jobs it was given, oldest first. */
  jobs(): string[]
  /** The kinds of the messages that it received about a job. */
  told(job: string): string[]
  say(message: FromExecutor): Promise<void>
  accept(job: string): Promise<void>
  answer(job: string, result: unknown): Promise<void>
  ask(ask: Ask): Promise<ToExecutor | undefined>
  /** Its line closes; the parent has not seen its end yet. */
  hangUp(): Promise<void>
  die(): Promise<void>
}

export interface Crew {
  pool: Pool & Dispatcher
  /** By call. */
  leases: Map<string, Leased>
  /** What the pool reported: `kill 1 overdue`, `drained 1`, `died 1 with a, b`, `ready 1`, `job a on 1`. */
  story: string[]
  adopted: { held: HeldJobReport; running: Promise<{ result: unknown } | undefined> }[]
  executor(id: number, options?: { holding?: HeldJobReport[] }): Promise<Played>
}

const LOG = { debug() {}, info() {}, warn() {}, error() {} }

/** Lets messages that are under way arrive. */
export const settled = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0)

/** An order; with `once`, one for an external call. */
export function order(call: string, { kind = 'executeTool', session = 's', tool = call, once, attempt = 1 }: OrderOptions = {}): JobOrder {
  const report: AttemptReport = { attempt, begun: false, failed: [], worker: 'orchestrator' }
  return {
    kind,
    input: { epoch: 'e', watermark: { seq: 3, digest: 'd' } } as JobOrder['input'],
    attempt: { number: attempt, failed: [], failures: 0 },
    ticket: {
      taskToken: new Uint8Array(),
      sessionId: session,
      workflowId: `pawl:${session}`,
      executionId: 'x',
      activityId: '1',
      subject: kind === 'callModel' ? modelCall(call) : { of: 'tool', callId: call, tool },
      heartbeatTimeoutMs: 10_000,
      report,
      ...(once && { once }),
    },
  }
}

/** `model:<run>:<turn>` */
function modelCall(call: string): JobSubject {
  const [, run = 1, turn = 1] = call.split(':').map(Number)
  return { of: 'model', run, turn }
}

interface OrderOptions {
  kind?: JobKind
  session?: string
  tool?: string
  once?: true
  attempt?: number
}

export const answered = (result: unknown): JobOutcome => ({ kind: 'answered', result })

/** Starts a crew without executors. Timers must be faked. */
export function startCrew(more: Partial<PoolNeeds> = {}): Crew {
  const leases = new Map<string, Leased>()
  const story: string[] = []
  const adopted: Crew['adopted'] = []
  const tell = (line: string): void => void story.push(line)
  const pool = startPool({
    size: 2,
    eventsFor: () => undefined,
    // These tests ask for nothing of a session's past.
    answerRequest: requestsOver({} as never),
    kill: (id, why) => tell(`kill ${id} ${why}`),
    onDrained: (id) => tell(`drained ${id}`),
    onReady: ({ id }) => tell(`ready ${id}`),
    onJob: ({ ticket }, { id }) => tell(`job ${nameOfSubject(ticket.subject)} on ${id}`),
    onDeath: ({ id }, held) => tell(`died ${id} with ${held.map(({ ticket }) => nameOfSubject(ticket.subject)).join(', ') || 'nothing'}`),
    logger: LOG,
    ...more,
  })
  const taken: Leases = {
    take: ({ report, subject }, onStop) => leaseOf(report, leases, nameOfSubject(subject), onStop),
    receive: () => undefined,
    askForStops: () => undefined,
  }
  const crew = { ...pool, ...dispatcherTo(pool, taken) }
  return { pool: crew, leases, story, adopted, executor: (id, { holding = [] } = {}) => play(crew, id, holding, adopted) }
}

function leaseOf(first: AttemptReport, leases: Map<string, Leased>, call: string, onStop: (why: 'cancelled' | 'lost') => void): Lease {
  const leased: Leased = { announced: 0, begun: 0, released: false, recorded: [], stop: onStop }
  leases.set(call, leased)
  let report = first
  return {
    get report() {
      return report
    },
    given(executor) {
      report = { ...report, executor }
    },
    async announce() {
      leased.announced += 1
    },
    isHeld: () => true,
    async begin() {
      leased.begun += 1
      report = { ...report, begun: true }
    },
    progress(value) {
      report = { ...report, progress: value }
    },
    noteReservation(reserved) {
      report = { ...report, reserved }
    },
    async ride(riding) {
      report = { ...report, riding }
    },
    leaveRide() {
      report = { ...report, riding: undefined }
    },
    async reserve(reserved) {
      leased.recorded.push({ reserved })
      report = { ...report, reserved }
    },
    async record(change) {
      leased.recorded.push(change)
      report = { ...report, ...change }
    },
    stillMine: () => Promise.resolve(true),
    release() {
      leased.released = true
    },
  }
}

async function play(pool: Crew['pool'], id: number, holding: HeldJobReport[], adopted: Crew['adopted']): Promise<Played> {
  const { near, far, end } = mortalLine<FromExecutor, ToExecutor>()
  const received: ToExecutor[] = []
  far.onMessage((message) => received.push(message))
  pool.connect(near, (executor, held) => {
    const running = pool.adopt(executor, held)
    running.catch(() => undefined)
    adopted.push({ held, running })
  })
  let requests = 0
  const say = async (message: FromExecutor): Promise<void> => {
    far.send(message)
    await settled()
  }
  await say({ type: 'hello', executor: id, pid: 1_000 + id, worker: `host:${1_000 + id}`, models: new Map(), hasSlices: false, holding })
  return {
    received,
    jobs: () => received.flatMap((message) => (message.type === 'job' ? [message.job] : [])),
    told: (job) => received.flatMap((message) => ('job' in message && message.job === job ? [textOf(message)] : [])),
    say,
    accept: (job) => say({ type: 'accepted', job }),
    answer: (job, result) => say({ type: 'done', job, outcome: answered(result) }),
    async ask(ask) {
      const request = ++requests
      await say({ type: 'request', request, ask })
      return received.find((message) => 'request' in message && message.request === request)
    },
    async hangUp() {
      end()
      await settled()
    },
    async die() {
      end()
      pool.exited(id)
      await settled()
    },
  }
}

function textOf(message: ToExecutor & { job: string }): string {
  return message.type === 'stop' ? `stop: ${message.why}` : message.type
}

/** What became of a job. */
export function watched(running: Promise<{ result: unknown } | undefined>): { outcome?: unknown; error?: unknown } {
  const seen: { outcome?: unknown; error?: unknown } = {}
  running.then(
    (result) => void (seen.outcome = result ?? 'no executor'),
    (error: unknown) => void (seen.error = error),
  )
  return seen
}
