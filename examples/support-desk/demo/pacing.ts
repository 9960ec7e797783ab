// Decides when a kill is due: the kills are spread over the work, so that all of them strike during it.
import { integer, randomFrom } from '../world/random.ts'
import type { Ticket } from '../world/tickets.ts'

/** How far the work has progressed, and how many kills are due by then. */
export interface Pacing {
  started(ticket: Ticket): void
  turn(ticket: Ticket): void
  finished(ticket: Ticket): void
  /** Tickets in progress now. */
  inWork(): number
  /** How many kills should have been made by now. */
  due(): number
}

/** All kills are due by this share of the work; the rest leaves time to recover. */
const LAST_KILL = 0.85

/** Draws from the seed at which share of the work each kill is due. */
export function createPacing(tickets: readonly Ticket[], kills: number, seed: number): Pacing {
  const random = randomFrom(seed, 'kill moments')
  const shares = Array.from({ length: kills }, () => (integer(random, 0, 9_999) / 10_000) * LAST_KILL).sort((a, b) => a - b)
  const total = tickets.reduce((sum, ticket) => sum + ticket.turns, 0)
  const turns = new Map<Ticket, number>()
  let done = 0
  let startedSoFar = 0
  return {
    started(ticket) {
      startedSoFar += 1
      turns.set(ticket, 0)
    },
    turn(ticket) {
      turns.set(ticket, Math.min((turns.get(ticket) ?? 0) + 1, ticket.turns))
    },
    finished(ticket) {
      turns.delete(ticket)
      done += ticket.turns
    },
    inWork: () => turns.size,
    due() {
      // The last tickets are the last chance: whatever is left then is due
      if (startedSoFar === tickets.length) return kills
      const share = [...turns.values()].reduce((sum, some) => sum + some, done) / total
      return shares.filter((moment) => moment <= share).length
    },
  }
}
