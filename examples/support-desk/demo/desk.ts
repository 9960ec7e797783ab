// Works through the tickets: each is a session, several at a time; each letter is sent once the previous one is answered.
import type { SessionEvent } from 'pawl'
import type { Pawl, RunHandle } from 'pawl/client'
import type { Ticket } from '../world/tickets.ts'

/** Tickets in progress at the same time. */
const AT_ONCE = 4

/** Milliseconds that one letter may take, including crashes; more means that something hangs. */
const LETTER_MS = 900_000

/** The outcome of a ticket. */
export interface Worked {
  ticket: Ticket
  sessionId: string
  turns: number
  answers: string[]
  /** Why it was not answered completely. */
  failure?: string
}

export interface DeskOptions {
  pawl: Pawl
  tickets: readonly Ticket[]
  sessionIdOf(ticket: Ticket): string
  onStart(ticket: Ticket): void
  onEvent(ticket: Ticket, event: SessionEvent): void
  onWorked(worked: Worked): void
}

/** Resolves when every ticket was answered or has failed. */
export async function workOnTickets(options: DeskOptions): Promise<Worked[]> {
  const all: Worked[] = []
  const queue = options.tickets.values()
  const lane = async (): Promise<void> => {
    for (const ticket of queue) {
      options.onStart(ticket)
      const worked = await workOn(ticket, options)
      all.push(worked)
      options.onWorked(worked)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
  return all
}

async function workOn(ticket: Ticket, options: DeskOptions): Promise<Worked> {
  const worked: Worked = { ticket, sessionId: options.sessionIdOf(ticket), turns: 0, answers: [] }
  const session = options.pawl.session(worked.sessionId, {
    agent: 'support-desk',
    context: { ticket: ticket.id, customerId: ticket.customer.id },
    tags: [ticket.scenario],
  })
  const seen = (event: SessionEvent): void => {
    if (event.type === 'model_completed') worked.turns += 1
    options.onEvent(ticket, event)
  }
  try {
    for (const [index, letter] of ticket.messages.entries()) {
      const run = await session.send(letter, { messageId: `letter-${index + 1}`, isNew: index === 0 })
      const watching = watch(run, seen)
      const settled = await run.settled({ timeout: LETTER_MS })
      if (settled.status !== 'waiting') await watching
      if (settled.status !== 'completed') return { ...worked, failure: whyNot(settled) }
      worked.answers.push(settled.text)
    }
    return worked
  } catch (error) {
    return { ...worked, failure: error instanceof Error ? error.message : String(error) }
  }
}

async function watch(run: RunHandle, seen: (event: SessionEvent) => void): Promise<void> {
  for await (const event of run.events()) seen(event)
}

function whyNot(settled: Exclude<Awaited<ReturnType<RunHandle['settled']>>, { status: 'completed' }>): string {
  if (settled.status === 'interrupted') return 'interrupted'
  if (settled.status === 'waiting') return `waiting for a decision: ${settled.pending.map(({ tool }) => tool).join(', ')}`
  return `${settled.status}: ${settled.code}: ${settled.reason}`
}
