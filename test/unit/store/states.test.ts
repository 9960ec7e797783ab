// Stored states: read again, upgraded, or refused with a reason. And migrations that declare what they are.
import { describe, expect, it } from 'vitest'
import type { SessionEvent } from '../../../src/session/events.ts'
import { initialState } from '../../../src/session/fold/fold.ts'
import { readState, STATE_VERSION, UnreadableState, type Upgrade } from '../../../src/session/fold/state-versions.ts'
import { beginFolding, keptStates } from '../../../src/store/write/checkpoints.ts'
import { isBreaking } from '../../../src/store/postgres/migrate.ts'
import { schemaOf } from '../../../src/store/postgres/schema.ts'
import type { ParsedEntry } from '../../../src/store/write/entries.ts'
import { sessionStarted } from '../../support/session-started.ts'

const state = initialState({ v: 1, seq: 1, at: 1_000, ...sessionStarted({ coreVersion: 2 }) })
const { accepted: _, ...slim } = state

const reasonOf = (read: () => unknown): string => {
  try {
    read()
    return 'read'
  } catch (error) {
    return error instanceof UnreadableState ? `${error.code}: ${error.message}` : String(error)
  }
}

describe('a stored state', () => {
  it('a stored state is read as it was written, without the ids of the messages', () => {
    expect(readState(JSON.stringify(slim), STATE_VERSION)).toEqual(state)
  })

  it('a stored state of an older version is upgraded to the newest, step by step', () => {
    const { agent: _agent, ...older } = slim
    const upgrades: Record<number, Upgrade> = {
      0: (one) => ({ ...one, name: 'a' }),
      1: ({ name = null, ...one }) => ({ ...one, agent: name }),
    }
    expect(readState(JSON.stringify(older), 0, { upgrades, version: 2 })).toEqual(state)
    expect(reasonOf(() => readState(JSON.stringify(older), 0, { upgrades: {}, version: 2 }))).toBe('unreadable_state: version 0 is unknown')
  })

  it('a stored state is refused with the reason if it cannot be read', () => {
    const text = JSON.stringify(slim)
    expect(reasonOf(() => readState('{', 1))).toContain('it is not JSON')
    expect(reasonOf(() => readState('[]', 1))).toContain('it is not an object')
    expect(reasonOf(() => readState(text, 2))).toContain('its version 2 is newer than 1')
    expect(reasonOf(() => readState(JSON.stringify({ ...slim, inbox: null }), 1))).toContain('its inbox is invalid')
    expect(reasonOf(() => readState(JSON.stringify({ ...slim, current: { run: 1 } }), 1))).toContain('its current is invalid')
  })
})

describe('a state that cannot be folded', () => {
  it('a state that cannot be folded fails the checkpoints that would need it, and nothing else', async () => {
    const kept = keptStates()
    kept.set('s', { digest: 'd', state: { ...state, inbox: null as never } })
    const entry = (given: object) => {
      const event = { v: 1, at: 1, ...given } as SessionEvent
      return { event, exact: event } as ParsedEntry
    }
    const entries = [
      entry({ seq: 2, type: 'message_received', messageId: 'm', content: 'x' }),
      entry({ seq: 3, type: 'checkpoint_made', version: 1, reasons: ['turn'] }),
    ]
    const tx = { query: () => Promise.reject(new Error('nothing is to be read')) }
    const of = { sessionId: 's', key: 's', head: { seq: 1, digest: 'd' }, forkedSeq: 0 }
    const folding = await beginFolding(tx, schemaOf('pawl'), kept, { of, entries, guarded: false })
    const { rows, failures } = folding.fold(entries)
    expect(rows).toEqual([])
    expect(failures.map(({ event, error }) => [event.seq, error.code])).toEqual([[3, 'checkpoint_fold_failed']])
    folding.keep('d2')
    expect(kept.has('s')).toBe(false)
  })
})

describe('a migration', () => {
  it('a migration is breaking if its first line marks it as breaking', () => {
    expect(isBreaking('-- breaking\nalter table x')).toBe(true)
    expect(isBreaking('-- breaking\r\nalter table x')).toBe(true)
    expect(isBreaking('-- Not breaking.\n-- breaking\n')).toBe(false)
    expect(isBreaking('-- breaking news\n')).toBe(false)
  })
})
