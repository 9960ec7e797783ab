// The crash test: a conversation without kills, then once for every boundary with a SIGKILL there, then with random faults.
import { randomUUID } from 'node:crypto'
import { Pawl } from '../../client/pawl.ts'
import { startStack, type Stack } from '../stack.ts'
import { type Boundary, boundariesOf, chosen, killsOf, leadsToVerify, type Mark, verifyBoundaries } from './boundaries.ts'
import { crashClient } from './client.ts'
import { compare, type Difference, type ConversationOutcome } from './compare.ts'
import { converse, outcomeOf } from './conversation.ts'
import { CrashTestError } from './errors.ts'
import type { ServedAgent } from './marks.ts'
import { InvalidOptionError } from '../../options/errors.ts'
import { checkCrashTest, type CrashTestSettings } from './options.ts'
import { type Random, randomFrom } from './random.ts'
import { tableOf } from './table.ts'
import { drawTroubles, hitsSupervisor, makeTroubles, type Trouble } from './troubles.ts'
import type { BoundaryResult, CrashTestOptions, CrashTestResult, RoundResult, TroubleKind } from './types.ts'
import { type CrashWorkers, startWorkers } from './workers.ts'
import { type HeldWorld, heldTo } from './world.ts'
import { defined } from '../../session/defined.ts'
import { counted } from '../../session/counted.ts'

/** Flush numbers differ between runs, because turns in quick succession share a flush; and faults may come too late. */
const TRIES = 3

/** See `crashTest` in `crash.ts`. */
export async function runCrashTest(options: CrashTestOptions): Promise<CrashTestResult> {
  const settings = checkCrashTest(options)
  const ends: (() => unknown)[] = []
  const world = heldTo(settings.world)
  try {
    ends.push(setEnvironment({ PAWL_LOG_LEVEL: process.env.PAWL_LOG_LEVEL ?? 'error', ...(await started(world)) }))
    ends.push(() => world.stop())
    const stack = settings.stack ?? (await startStack({ temporal: ['path', 'cache', 'download', 'go'], postgres: ['embedded'] }))
    if (!settings.stack) ends.push(() => stack.stop())
    const postgres = await stack.createDatabase()
    ends.push(() => stack.dropDatabase(postgres))
    const temporal = { address: stack.temporalAddress, namespace: stack.namespace }
    const taskQueue = `crash-test-${randomUUID()}`
    const workers = await startWorkers({ module: settings.module, processes: settings.processes, temporal, postgres, taskQueue })
    ends.push(() => workers.stop())
    const { client, close } = await crashClient(temporal)
    ends.push(close)
    const pawl = await Pawl.connect({ temporal: client, postgres, taskQueue })
    ends.push(() => pawl.close())
    const agent = agentOf(await workers.marks.agents(), settings.agent)
    return await carryOut(settings, { world, stack, workers, pawl, agent })
  } finally {
    await endAll(ends.toReversed())
  }
}

/** A world that failed to start is stopped, too, because part of it may be running. */
async function started(world: HeldWorld): Promise<Record<string, string>> {
  try {
    return await world.start()
  } catch (error) {
    await world.stop().catch(ignore)
    throw error
  }
}

/** Closes every resource, even if closing one fails. */
async function endAll(ends: readonly (() => unknown)[]): Promise<void> {
  const [end, ...more] = ends
  if (!end) return
  try {
    await end()
  } finally {
    await endAll(more)
  }
}

/** What the conversations run on. */
interface Setup {
  world: HeldWorld
  stack: Stack
  workers: CrashWorkers
  pawl: Pawl
  agent: ServedAgent
}

interface ConversationResult {
  outcome: ConversationOutcome
  marks: Mark[]
  ms: number
  /** Whether processes died as planned. */
  killed: boolean
  troubles: string[]
}

async function carryOut(settings: CrashTestSettings, setup: Setup): Promise<CrashTestResult> {
  const { log, seed, rounds } = settings
  const run = conversations(settings, setup)
  const baseline = await runBaseline(run)
  const problems = baseline.outcome.unstable
  const all = boundariesOf(baseline.marks)
  const boundaries = chosen(all, settings.only)
  log(
    `crash test: ${counted(all.length, 'boundary', 'boundaries')} in ${baseline.ms} ms without kills; ${boundaries.length} to kill at, ${counted(rounds, 'random round')}, seed ${seed}`,
  )

  const killed = await atBoundaries(run, { baseline, boundaries, only: settings.only, log })

  const kinds = settings.kinds.filter((kind) => (kind !== 'postgres' && kind !== 'temporal') || setup.stack[kind].origin === 'embedded')
  const randomRounds: RoundResult[] = []
  const draw = drawing(randomFrom(seed), kinds, baseline)
  while (kinds.length > 0 && randomRounds.length < rounds) {
    const result = await inTrouble(run, baseline.outcome, randomRounds.length + 1, draw)
    randomRounds.push(result)
    log(
      `random round ${result.round}/${rounds}: ${result.verdict} (${result.ms} ms): ${result.troubles.join('; ')}${firstOf(result.differences)}`,
    )
  }

  const table = tableOf({ boundaries: killed, rounds: randomRounds, problems, notes: baseline.outcome.notes, seed })
  log(`\n${table}`)
  const { effects, world, transcript, notes } = baseline.outcome
  return {
    ok: problems.length === 0 && [...killed, ...randomRounds].every(passes),
    baseline: { effects, world, transcript, notes, ms: baseline.ms },
    problems,
    boundaries: killed,
    rounds: randomRounds,
    seed,
    table,
  }
}

/** A flush or fault that did not happen does not count against the agent. A call from the script that was not made does. */
function passes(result: BoundaryResult | RoundResult): boolean {
  if (result.verdict === 'not_reached') return !('boundary' in result) || result.boundary.what === 'flush'
  return result.verdict !== 'differs'
}

type RunConversation = (faults?: { killAt?: readonly string[]; troubles?: readonly Trouble[] }) => Promise<ConversationResult>

/** Runs one conversation after another, each in its own session and with the world reset. Each begins with all processes running. */
function conversations(settings: CrashTestSettings, { world, stack, workers, pawl, agent }: Setup): RunConversation {
  const { script, context, tags, timeoutMs } = settings
  const name = randomUUID().slice(0, 8)
  let conversation = 0
  return async ({ killAt = [], troubles = [] } = {}) => {
    conversation += 1
    const sessionId = `crash-test-${name}-${conversation}`
    await workers.complete()
    await world.reset()
    workers.marks.setPlan({ conversation, sessionId, killAt })
    const making = makeTroubles(troubles, { marks: workers.marks, conversation, group: () => workers.group(), stack })
    const begun = Date.now()
    const carried = await converse({
      pawl,
      sessionId,
      agent: agent.name,
      script,
      timeoutMs: timeoutMs + troubles.filter(hitsSupervisor).length * agent.slowestMs,
      ...defined({ context }),
      ...(tags && { tags }),
    })
    const ms = Date.now() - begun
    const made = await making.end()
    const session = pawl.session(sessionId, { agent: agent.name })
    const marks = await workers.marks.marks(conversation)
    const outcome = await outcomeOf(carried, { session, world, marks })
    // The session receives no more messages. Left open, it would be one more execution to hand over when a process dies.
    await session.close().catch(() => undefined)
    return { outcome, marks, ms, killed: killAt.length > 0 && workers.marks.killed(conversation) === killAt.length, troubles: made }
  }
}

/** The run without kills. It runs twice, because any difference between the two would show up at every boundary. */
async function runBaseline(run: RunConversation): Promise<ConversationResult> {
  const [first, second] = [await run(), await run()]
  const [problem] = [first, second].flatMap(({ outcome }) => [...outcome.problems, ...outcome.failed])
  if (problem !== undefined) {
    throw new CrashTestError('baseline_failed', `The conversation fails even without kills: ${problem}. Fix that first.`)
  }
  const { differences } = compare(first.outcome, second.outcome)
  const [difference] = differences
  if (difference) {
    throw new CrashTestError(
      'not_repeatable',
      `Two runs of the conversation without kills differ: ${difference.where}: ${difference.text}. ` +
        'Make the model a function of its request (`scripted`), and leave times and random ids out of the world’s answers.',
    )
  }
  return second
}

/** Kills at each boundary, and at those within `verify`, which only occur in runs where a call was killed before. */
async function atBoundaries(
  run: RunConversation,
  {
    baseline,
    boundaries,
    only,
    log,
  }: {
    baseline: ConversationResult
    boundaries: readonly Boundary[]
    only: CrashTestOptions['only'] | undefined
    log: (line: string) => void
  },
): Promise<BoundaryResult[]> {
  const results: BoundaryResult[] = []
  const marksAt = new Map<string, Mark[]>()
  const killAtAll = async (these: readonly Boundary[]): Promise<void> => {
    const all = results.length + these.length
    for (const boundary of these) {
      const { result, marks } = await atBoundary(run, baseline.outcome, boundary)
      results.push(result)
      marksAt.set(boundary.id, marks)
      log(`${results.length}/${all} ${boundary.name}: ${result.verdict} (${result.ms} ms)${firstOf(result.differences)}`)
    }
  }
  await killAtAll(boundaries)
  const leads = leadsToVerify(baseline.marks).filter((lead) => chosen(verifyBoundaries(lead), only).length > 0)
  const within: Boundary[] = []
  for (const lead of leads) {
    const marks = marksAt.get(lead.id) ?? (await run({ killAt: [lead.id] })).marks
    within.push(...chosen(verifyBoundaries(lead, marks), only))
  }
  if (within.length > 0) log(`kills during calls led to ${counted(within.length, 'more boundary', 'more boundaries')}, within verify`)
  await killAtAll(within)
  return results
}

async function atBoundary(
  run: RunConversation,
  baseline: ConversationOutcome,
  boundary: Boundary,
): Promise<{ result: BoundaryResult; marks: Mark[] }> {
  for (let tries = 1; ; tries++) {
    const { outcome, ms, killed, marks } = await run({ killAt: killsOf(boundary.id) })
    if (killed) return { result: { boundary, ms, ...compare(baseline, outcome) }, marks }
    if (tries >= TRIES || boundary.what !== 'flush') return { result: { boundary, ms, verdict: 'not_reached', differences: [] }, marks }
  }
}

/** Draws the faults of one round after another. Each round's first fault is of the next kind in turn. */
function drawing(random: Random, kinds: readonly TroubleKind[], { marks, ms }: ConversationResult): () => Trouble[] {
  const order = [...kinds].toSorted(() => random.fraction() - 0.5)
  let drawn = 0
  return () => drawTroubles(random, kinds, order[drawn++ % order.length] ?? 'kill', { marks: marks.length, ms })
}

/** A round that ended before any fault occurred proves nothing, so it is repeated. */
async function inTrouble(run: RunConversation, baseline: ConversationOutcome, round: number, draw: () => Trouble[]): Promise<RoundResult> {
  for (let tries = 1; ; tries++) {
    const { outcome, ms, troubles } = await run({ troubles: draw() })
    const compared = compare(baseline, outcome)
    if (troubles.length > 0 || compared.verdict === 'differs') return { round, troubles, ms, ...compared }
    if (tries >= TRIES) return { round, troubles, ms, verdict: 'not_reached', differences: [] }
  }
}

/** The agent under test. @throws InvalidOptionError. */
function agentOf(agents: readonly ServedAgent[], wanted: string | undefined): ServedAgent {
  const names = agents.map(({ name }) => name).join(', ')
  const [only, ...more] = agents
  const found = wanted === undefined && more.length === 0 ? only : agents.find(({ name }) => name === wanted)
  if (found) return found
  if (wanted === undefined) throw new InvalidOptionError(`The module serves ${names}. Name one of them in \`agent\`.`)
  throw new InvalidOptionError(`\`agent\` is ${JSON.stringify(wanted)}, but the module serves ${names}. Name one of them.`)
}

function firstOf([difference]: readonly Difference[]): string {
  return difference ? `: ${difference.where}: ${difference.text}` : ''
}

/** Sets variables that worker processes inherit; returns the function that restores the old ones. */
function setEnvironment(variables: Record<string, string>): () => void {
  const before = Object.keys(variables).map((name) => [name, process.env[name]] as const)
  Object.assign(process.env, variables)
  return () => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
  }
}

function ignore(): void {}
