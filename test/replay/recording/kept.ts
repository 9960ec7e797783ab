// Kept histories: files of real sessions, with the events that their workflow made when they were recorded.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { SessionEvent, Watermark } from '../../../src/session/events.ts'

/** One execution of a session. */
export interface KeptExecution {
  executionId: string
  /** The newest event of the executions before it, if any. */
  base: Watermark
  /** Where it ended: digest and number of its last event. */
  end: Watermark
  /** The events that it made, as they were stored. */
  events: SessionEvent[]
  /** Its history as Temporal's proto JSON. */
  history: { events: object[] }
}

/** A session, all its executions in order. */
export interface KeptSession {
  name: string
  workflowId: string
  recorded: { at: string; pawl: string; sdk: string; server: string; coreVersion: number }
  executions: KeptExecution[]
}

const FOLDER = new URL('../histories/', import.meta.url)

/** All kept sessions, by name. */
export function keptSessions(): KeptSession[] {
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith('.json'))
    .sort()
    .map((file) => JSON.parse(readFileSync(new URL(file, FOLDER), 'utf8')) as KeptSession)
}

/** Keeps a session; returns the path of its file. */
export function keep(session: KeptSession): string {
  const file = new URL(`${session.name}.json`, FOLDER)
  writeFileSync(file, `${lineByLine(session)}\n`)
  return fileURLToPath(file)
}

/** JSON with one event per line, because people read the diffs. */
function lineByLine({ executions, ...about }: KeptSession): string {
  const listed = (list: readonly object[]): string => `[\n${list.map((one) => JSON.stringify(one)).join(',\n')}\n]`
  const head = JSON.stringify(about).slice(0, -1)
  const bodies = executions.map(({ events, history, ...place }) => {
    return `${JSON.stringify(place).slice(0, -1)},\n"events":${listed(events)},\n"history":{"events":${listed(history.events)}}}`
  })
  return `${head},\n"executions":[\n${bodies.join(',\n')}\n]}`
}
