// What the demo prints while it runs: a line for each turn, each kill, and each call that resumes after one.
import { styleText } from 'node:util'
import type { EventOf, Json, SessionEvent, ToolUseBlock } from 'pawl'
import type { SupervisorEvent } from 'pawl/worker'
import type { Ticket } from '../world/tickets.ts'
import type { Worked } from './desk.ts'
import type { Kill } from './killer.ts'
import { callOf } from './killer.ts'

type Style = Parameters<typeof styleText>[0]

/** Writes the live lines. */
export interface Live {
  line(text: string, style?: Style): void
  event(ticket: Ticket, event: SessionEvent): void
  supervisor(event: SupervisorEvent): void
  kill(kill: Kill): void
  worked(worked: Worked): void
}

interface OpenTurn {
  uses: ToolUseBlock[]
  results: Map<string, string>
}

/** Lines on `out`, with the seconds since now; in colour on a terminal. `ticketOf` names a session. */
export function createLive(out: NodeJS.WriteStream, ticketOf: (sessionId: string) => string): Live {
  const start = Date.now()
  const open = new Map<string, OpenTurn>()
  /** The tools of calls that died with their process, by `<session>/<call>`. */
  const tools = new Map<string, string>()
  const colour = (style: Style, text: string): string => (out.isTTY ? styleText(style, text) : text)

  const line = (text: string, style?: Style): void => {
    const seconds = `${((Date.now() - start) / 1000).toFixed(1)}s`.padStart(7)
    out.write(`${colour('dim', seconds)}  ${style ? colour(style, text) : text}\n`)
  }

  const ended = (ticket: Ticket, event: EventOf<'tool_completed' | 'tool_failed' | 'tool_unknown'>): void => {
    const turn = open.get(ticket.id)
    if (!turn) return
    turn.results.set(event.callId, outcomeOf(event))
    if (turn.results.size < turn.uses.length) return
    open.delete(ticket.id)
    const calls = turn.uses.map(
      (use, index) => `${use.name} ${briefly(use.input)} ${turn.results.get(`t_${event.run}_${event.turn}_${index}`) ?? '?'}`,
    )
    line(`${ticket.id}  turn ${event.turn}  ${calls.join(' · ')}`)
  }

  return {
    line,
    event(ticket, event) {
      switch (event.type) {
        case 'model_completed': {
          const uses = event.content.filter((block) => block.type === 'tool_use')
          if (uses.length > 0) open.set(ticket.id, { uses, results: new Map() })
          else line(`${ticket.id}  turn ${event.turn}  ${colour('green', 'answers')} "${shortened(textOf(event), 100)}"`)
          break
        }
        case 'tool_completed':
        case 'tool_failed':
        case 'tool_unknown':
          ended(ticket, event)
          break
        case 'tool_resolved':
          line(
            `${ticket.id}  ${event.tool} was verified: ${event.happened ? 'it had happened' : 'it had not happened, so it is executed now'}`,
            'cyan',
          )
          break
        case 'message_rejected':
        case 'error_entered':
          line(`${ticket.id}  ${event.type}: ${event.code}: ${event.reason}`, 'red')
          break
        default:
          break
      }
    },
    supervisor(event) {
      if (event.event === 'worker_ready') line(`worker ${event.pid} is ready`, 'dim')
      if (event.event === 'worker_died') {
        for (const { sessionId, call, tool } of event.calls) tools.set(`${sessionId}/${callOf(call)}`, tool ?? 'the model call')
      }
      if (event.event === 'call_resumed') {
        const call = callOf(event.call)
        const what = tools.get(`${event.sessionId}/${call}`) ?? call
        const how = call === event.call ? 'resumed' : 'is being verified'
        line(`↻ ${ticketOf(event.sessionId)}  ${what} ${how} in worker ${event.pid} after ${Math.round(event.ms)} ms`, 'yellow')
      }
    },
    kill({ pid, aimedAt }) {
      const [session = '', call = ''] = aimedAt?.requestId?.split(/\/(?=t_)/) ?? []
      const where = aimedAt
        ? ` during ${ticketOf(session)} ${call.split('/')[0]}: ${aimedAt.method} ${aimedAt.path} is done, but not answered`
        : ''
      line(`✗ SIGKILL to worker ${pid}${where}`, 'red')
    },
    worked({ ticket, turns, failure }) {
      if (failure === undefined) line(`${ticket.id}  done in ${turns} turns (${ticket.scenario.replaceAll('_', ' ')})`, 'green')
      else line(`${ticket.id}  NOT done: ${failure}`, 'red')
    },
  }
}

function outcomeOf(event: EventOf<'tool_completed' | 'tool_failed' | 'tool_unknown'>): string {
  if (event.type === 'tool_unknown') return '→ unknown'
  if (event.type === 'tool_failed') return `→ ${shortened(event.message, 70)}`
  const attempt = event.attempt > 1 ? ` (attempt ${event.attempt})` : ''
  return `→ ${event.effectId ?? 'ok'}${attempt}`
}

/** The values of an input, without its names. */
function briefly(input: Json): string {
  const values = (value: Json): string[] =>
    value !== null && typeof value === 'object' ? Object.values(value).flatMap(values) : [String(value)]
  return shortened(values(input).join(' '), 40)
}

function textOf(event: EventOf<'model_completed'>): string {
  return event.content.map((block) => (block.type === 'text' ? block.text : '')).join('')
}

function shortened(text: string, length: number): string {
  const flat = text.replace(/\s+/g, ' ')
  return flat.length > length ? `${flat.slice(0, length - 1)}…` : flat
}
