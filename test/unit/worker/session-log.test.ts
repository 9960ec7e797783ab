// The log of sessions: each fact once, whatever the workflow repeats, and what a run has cost.
import { expect, it } from 'vitest'
import { NO_USAGE } from '../../../src/session/content.ts'
import { nextDigest } from '../../../src/session/digest.ts'
import type { EventBody, LogEntry } from '../../../src/session/events.ts'
import { type AppendedEvents, startSessionLog } from '../../../src/worker/orchestrator/log/session-log.ts'

const AT = Date.UTC(2026, 10, 1)
const USAGE = { ...NO_USAGE, input_tokens: 1_000, output_tokens: 1_000 }
const BOTH = { ...NO_USAGE, input_tokens: 2_000, output_tokens: 2_000 }

/** The entries of events, as a workflow numbers and chains them. */
function entriesOf(bodies: readonly EventBody[]): LogEntry[] {
  const entries: LogEntry[] = []
  for (const body of bodies) {
    const { seq, digest: prev } = entries.at(-1) ?? { seq: 0, digest: '' }
    const json = JSON.stringify({ v: 1, seq: seq + 1, at: AT, ...body })
    entries.push({ seq: seq + 1, prev, digest: nextDigest(prev, json), json })
  }
  return entries
}

function answer(turn: number, model = 'claude-sonnet-5-5'): EventBody {
  const about = { attempt: 1, model, content: [], calls: [] }
  return { type: 'model_completed', run: 1, turn, ...about, stopReason: 'end_turn', usage: USAGE }
}

const started: EventBody = { type: 'run_started', run: 1, messageId: 'm' }
const completed: EventBody = { type: 'run_completed', run: 1, turns: 2, stopReason: 'end_turn', usage: BOTH }

function log() {
  const lines: { message: string; fields: Record<string, unknown> }[] = []
  const write = (fields: object, message = ''): void => void lines.push({ message, fields: fields as Record<string, unknown> })
  const append = startSessionLog({ logger: { debug: write, info: write, warn: write, error: write }, modelOf: () => undefined })
  return {
    lines,
    pass: (entries: readonly LogEntry[], how: Partial<AppendedEvents> = {}) =>
      append({ sessionId: 's', entries, background: { agent: 'a', run: 1, usage: BOTH }, isReplaying: false, ...how }),
    cost: () => lines.find(({ message }) => message === 'run completed')?.fields.usd,
  }
}

it('the session log has each event once, even after replays, repeated tasks and earlier executions', () => {
  const { lines, pass } = log()
  const entries = entriesOf([started, answer(1), answer(2), completed])
  pass(entries.slice(0, 1), { isReplaying: true })
  pass(entries.slice(1, 2), { background: undefined })
  pass(entries.slice(2))
  pass(entries.slice(2))
  expect(lines.map(({ message }) => message)).toEqual(['model answered', 'run completed'])
})

it('the session log includes an event that a repeated task makes differently', () => {
  const { lines, pass } = log()
  pass(entriesOf([started]))
  pass(entriesOf([{ type: 'message_received', messageId: 'n', content: 'wait' }, started]))
  expect(lines.map(({ message }) => message)).toEqual(['run started', 'message received', 'run started'])
})

it('the session log has the cost of a run, including answers that were replayed', () => {
  const { pass, cost, lines } = log()
  const entries = entriesOf([started, answer(1), answer(2), completed])
  pass(entries.slice(0, 2), { isReplaying: true })
  pass(entries)
  expect(lines.find(({ message }) => message === 'model answered')?.fields.usd).toBe(0.012)
  expect(cost()).toBe(0.024)
})

it('the session log omits the cost of a run if an answer has no known price, or did not pass through this log', () => {
  const scripted = log()
  scripted.pass(entriesOf([started, answer(1), answer(2, 'scripted'), completed]))
  expect(scripted.cost()).toBeUndefined()
  const late = log()
  late.pass(entriesOf([started, answer(2), completed]))
  expect(late.cost()).toBeUndefined()
})
