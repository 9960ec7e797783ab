// What is measured for each row, in conversations that all programs have in the same way.
import { setTimeout as sleep } from 'node:timers/promises'
import { quantile, type Sample, sampleOf } from '../statistics.ts'
import { awaitMark, marksOf, type Program } from './program.ts'
import { type Conversation, type Mark, now, type Setting } from './setting.ts'

/** Turns before anything is measured: they compile code, fill caches, and prove to pawl that the tool is quick. */
const WARM_UP_TURNS = 30
/** After a conversation, what its program still writes. */
const SETTLE_MS = 1_500
/** The conversation that is killed, in the middle of its tool call. */
const KILLED = { turns: 10, hold: 5 }
const INTO_TOOL_MS = 500
/** How long a peer has to resume after a kill. */
export const RESUMES_WITHIN_MS = 90_000
/** The turns whose median stands for an early turn, and how many for the last one. */
const EARLY = [6, 15] as const
const LAST = 10

/** A conversation that was had. */
export interface Timing {
  msPerTurn: number
  /** How long the last turns took, relative to the tenth; undefined if there are too few. */
  growth: number | undefined
}

/** What happened after one kill; times in milliseconds after it, undefined if it never happened. */
export interface Kill {
  toolAgain: number | undefined
  nextModel: number | undefined
  /** How often the effect of the interrupted call happened. */
  effects: number
  /** How many calls that had finished ran again. */
  finishedAgain: number
}

/** The table's cells. */
export interface Measured {
  msPerTurn: Sample
  /** Relative to the floor of the same round. */
  ratio: Sample
  growth: number | undefined
  bytes: number
  kills: Kill[]
  /** Kills of only the process that runs the tool. */
  toolKills: Kill[]
}

export const idOf = (): string => crypto.randomUUID()

/** Has the conversations that come before any measurement. */
export async function warmUp(program: Program): Promise<void> {
  await program.ready()
  await program.converse({ id: idOf(), turns: WARM_UP_TURNS })
}

/** Has a conversation and times it, by the marks of its model and tool. */
export async function timeTurns(program: Program, setting: Setting, conversation: Conversation): Promise<Timing> {
  await program.converse(conversation)
  const marks = await marksOf(setting, conversation.id)
  const begins = marks.filter(({ what }) => what === 'model').map(({ at }) => at)
  const [first, last] = [begins[0], marks.find(({ what }) => what === 'settled')?.at ?? begins[conversation.turns]]
  if (first === undefined || last === undefined || begins.length !== conversation.turns + 1) {
    throw new Error(`A conversation of ${conversation.turns} turns had ${begins.length} model calls instead of ${conversation.turns + 1}.`)
  }
  return { msPerTurn: (last - first) / conversation.turns, growth: growthOf(begins) }
}

function growthOf(begins: readonly number[]): number | undefined {
  const turns = begins.slice(1).map((at, index) => at - (begins[index] ?? at))
  if (turns.length < EARLY[1] + LAST) return undefined
  return quantile(turns.slice(-LAST), 0.5) / quantile(turns.slice(EARLY[0] - 1, EARLY[1]), 0.5)
}

/** Has a conversation and returns how many bytes it has added. */
export async function bytesOf(have: () => Promise<number>, stored: () => Promise<number>): Promise<number> {
  await sleep(SETTLE_MS)
  const before = await stored()
  const elsewhere = await have()
  await sleep(SETTLE_MS)
  return (await stored()) - before + elsewhere
}

/**
 * Kills a worker in the middle of a tool call, and starts another one at once; or, with `tool`, only the process of the call. Returns what
 * happened then, and the program that runs now.
 */
export async function killOnce(
  program: Program,
  setting: Setting,
  start: (resume: Conversation) => Program,
  what: 'worker' | 'tool',
): Promise<{ kill: Kill; program: Program }> {
  const conversation = { id: idOf(), ...KILLED }
  program.begin(conversation)
  const entered = await awaitMark(setting, conversation.id, effectIn(KILLED.hold), RESUMES_WITHIN_MS)
  if (!entered) throw new Error('The tool whose process should be killed was never entered.')
  await sleep(INTO_TOOL_MS)
  const at = now()
  if (what === 'tool') process.kill(entered.pid, 'SIGKILL')
  else await program.kill()
  const successor = what === 'tool' ? program : start(conversation)
  const isOver = (marks: readonly Mark[]) => marks.find(({ what, turn }) => what === 'model' && turn > KILLED.turns)
  await awaitMark(setting, conversation.id, isOver, RESUMES_WITHIN_MS)
  return { kill: killIn(await marksOf(setting, conversation.id), at), program: successor }
}

const effectIn = (turn: number) => (marks: readonly Mark[]) => marks.find((mark) => mark.what === 'effect' && mark.turn === turn)

function killIn(marks: readonly Mark[], at: number): Kill {
  const effects = marks.filter(({ what }) => what === 'effect')
  const after = ({ at: then }: Mark) => then > at
  const since = (mark: Mark | undefined) => mark && mark.at - at
  return {
    toolAgain: since(effects.find((mark) => mark.turn === KILLED.hold && after(mark))),
    nextModel: since(marks.find((mark) => mark.what === 'model' && mark.turn > KILLED.hold)),
    effects: effects.filter(({ turn }) => turn === KILLED.hold).length,
    finishedAgain: effects.filter((mark) => mark.turn < KILLED.hold && after(mark)).length,
  }
}

/** Summarises the rounds of a row. */
export function summaryOf(
  timings: readonly Timing[],
  floors: readonly Timing[],
  rest: Pick<Measured, 'bytes' | 'kills' | 'toolKills'>,
): Measured {
  const times = timings.map(({ msPerTurn }) => msPerTurn)
  const growths = timings.flatMap(({ growth }) => growth ?? [])
  return {
    msPerTurn: sampleOf(times),
    ratio: sampleOf(times.map((time, round) => time / (floors[round]?.msPerTurn ?? Number.NaN))),
    growth: growths.length > 0 ? quantile(growths, 0.5) : undefined,
    ...rest,
  }
}
