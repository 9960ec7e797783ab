// A session as it was at an event: its plan, memory, budgets and effects. Pure; the functions are those of worker and server.
import { type MemoryBlock, memoryBlocks } from '../../../src/session/built-in-tools/memory.ts'
import type { Plan } from '../../../src/session/built-in-tools/plan.ts'
import { type Effects, effectsAbove, forgetEffects, noEffects, noteEffect, type NotedEffect } from '../../../src/session/effects.ts'
import type { SessionEvent } from '../../../src/session/events.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { budgetLines } from '../../../src/session/spending/budget.ts'
import type { SessionState } from '../../../src/session/state.ts'

export interface Moment {
  /** The newest event. */
  seq: number
  plan: Plan | null
  memory: MemoryBlock[]
  budgets: ReturnType<typeof budgetLines>
  /** Effects that completed, or may have, in the order of their outcomes. */
  effects: NotedEffect[]
}

/** Reads moments of one session. Reading later ones continues where the last one ended, because a long session is folded for a while. */
export interface MomentReader {
  /** The session after the last event up to `at`; undefined if there is none. `events`: all that are known, oldest first. */
  read(events: readonly SessionEvent[], at: number): Moment | undefined
}

export function momentReader(): MomentReader {
  let state: SessionState | undefined
  let effects = noEffects()
  let count = 0
  let last: SessionEvent | undefined
  const isContinued = (events: readonly SessionEvent[], at: number): boolean =>
    last === undefined || (last.seq <= at && events[count - 1]?.seq === last.seq && events[0]?.type === 'session_started')
  return {
    read(events, at) {
      if (!isContinued(events, at)) [state, effects, count, last] = [undefined, noEffects(), 0, undefined]
      for (; count < events.length; count++) {
        const event = events[count]
        if (!event || event.seq > at) break
        // The fold changes the state in place; the events stay as they are.
        state = fold(state, [event])
        noteEffect(effects, event)
        if (event.type === 'rolled_back' && event.keys === 'forgotten') forgetEffects(effects, event.toSeq)
        last = event
      }
      return state && momentIn(state, effects)
    },
  }
}

function momentIn(state: SessionState, effects: Effects): Moment {
  return {
    seq: state.seq,
    plan: state.plan?.current ?? null,
    memory: memoryBlocks(state.memory?.current, state.facts?.memory),
    budgets: budgetLines(state),
    effects: effectsAbove(effects, 0),
  }
}
