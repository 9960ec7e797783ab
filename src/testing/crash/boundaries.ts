// The boundaries at which a crash test kills: their names, and their list from the marks of a run without kills.
import { defined } from '../../session/defined.ts'

/** A place in a conversation where a worker process can be killed. */
export interface Boundary {
  /**
   * `model:1:2/before`, `tool:t_1_1_0/answer:1`, `flush:3/during`, `checkpoint:1/after`, …: the same in every run of the conversation.
   * `child1>model:1:1/before`: the same in the session that answers an agent call; several of one depth share a boundary.
   * Two places joined by `+`: one process is killed at the first, and then another at the second, which is only reached because of the
   * first kill: `tool:t_1_1_0/end+verify:t_1_1_0/before`.
   */
  id: string
  /** What is in progress there. */
  what: 'model' | 'tool' | 'verify' | 'flush' | 'checkpoint'
  /** `before`: the body has not been entered. `during`: it has been entered, but its outcome is not recorded. `after`: its outcome is durable, and the workflow is about to continue.
   *
   */
  stage: 'before' | 'during' | 'after'
  /** A readable name: `run 1 turn 2: tool refund_order (t_1_2_0), during (response 1 from outside)`. */
  name: string
  /** The name that all boundaries of one call share; a row of the table. */
  subject: string
  /** The tool's name. */
  tool?: string
  /** The tool has a `verify`. */
  verifies?: true
}

/** The mark that a worker process makes when it reaches a place. */
export interface Mark {
  id: string
  /** The tool's name, for a tool call. */
  tool?: string
  /** The tool has a `verify`. */
  verifies?: true
  /** The call's idempotency key. */
  key?: string
  /** A problem with the call that occurs even without kills. */
  problem?: string
}

const BELOW = /^child(\d+)>/

/** The id of a place in a session that answers an agent call; `depth`: 0 is the conversation's own session. */
export function placeBelow(depth: number, id: string): string {
  return depth === 0 ? id : `child${depth}>${id}`
}

/** The boundaries that were reached, each once, in the order of their first marks. */
export function boundariesOf(marks: readonly Mark[]): Boundary[] {
  const found = new Map<string, Boundary>()
  for (const { id, tool, verifies } of marks) {
    const boundary = found.has(id) ? undefined : boundaryOf(id, tool ?? toolOf(marks, id))
    if (boundary) found.set(id, { ...boundary, ...defined({ verifies }) })
  }
  return [...found.values()]
}

/** The boundary with that id; undefined if the id names none. */
export function boundaryOf(id: string, tool?: string): Boundary | undefined {
  const [whole = '', first] = killsOf(id).toReversed()
  const [below = '', depth] = BELOW.exec(whole) ?? []
  const last = whole.slice(below.length)
  const where = depth === undefined ? '' : `child ${depth}, `
  const [place = '', step = ''] = last.split('/')
  const [what = '', ...rest] = place.split(':')
  const stage = step === 'before' || step === 'after' ? step : 'during'
  const detail = detailOf(what, step)
  const boundary = (subject: string): Boundary => ({
    id,
    what: what as Boundary['what'],
    stage,
    name: `${where}${subject}, ${stage}${detail}`,
    subject: `${where}${subject}`,
    ...defined({ tool }),
  })
  switch (what) {
    case 'model':
    case 'compaction':
      return boundary(`run ${rest[0]} turn ${rest[1]}: ${what}`)
    case 'tool':
    case 'verify': {
      const [callId = ''] = rest
      const [, run, turn] = /^t_(\d+)_(\d+)_\d+(?:#\d+)?$/.exec(callId) ?? []
      const killed = first === undefined ? '' : first.endsWith('/before') ? ', killed before' : ', killed at end'
      return boundary(`run ${run} turn ${turn}: ${tool === undefined ? what : `${what} ${tool}`} (${callId}${killed})`)
    }
    case 'flush':
    case 'checkpoint':
      return boundary(`${what} ${rest[0]}`)
    default:
      return undefined
  }
}

/** The places where processes are killed for this boundary, one after another. */
export function killsOf(id: string): string[] {
  return id.split('+')
}

/**
 * The boundaries within the `verify` that follows a kill at `lead`: those in the marks of such a run or, without marks, all that may occur.
 */
export function verifyBoundaries(lead: Boundary, marks?: readonly Mark[]): Boundary[] {
  const [place = ''] = lead.id.replace(/^(child\d+>)?tool:/, '$1verify:').split('/')
  const steps = marks
    ? [...new Set(marks.filter(({ id }) => id.startsWith(`${place}/`)).map(({ id }) => id))]
    : ['before', 'answer:1', 'end', 'after'].map((step) => `${place}/${step}`)
  return steps.flatMap((id) => boundaryOf(`${lead.id}+${id}`, lead.tool) ?? [])
}

/** Boundaries where a kill leads to a `verify`: before the call's body has done anything, and after it has done everything. */
export function leadsToVerify(marks: readonly Mark[]): Boundary[] {
  const verified = new Set(marks.filter(({ verifies }) => verifies).map(({ id }) => id))
  return boundariesOf(marks).filter(({ id }) => verified.has(id) && /^(?:child\d+>)?tool:[^/]+\/(before|end)$/.test(id))
}

/** The boundaries whose name or id matches, or that the function selects. Without a filter, all. */
export function chosen(boundaries: readonly Boundary[], only: RegExp | ((boundary: Boundary) => boolean) | undefined): Boundary[] {
  if (only === undefined) return [...boundaries]
  if (typeof only === 'function') return boundaries.filter(only)
  // A global or sticky expression remembers where it stopped.
  const pattern = new RegExp(only.source, only.flags.replaceAll(/[gy]/g, ''))
  return boundaries.filter(({ id, name }) => pattern.test(name) || pattern.test(id))
}

function detailOf(what: string, step: string): string {
  const [kind, number] = step.split(':')
  if (kind === 'answer') return ` (response ${number} from outside)`
  if (what === 'tool' && kind === 'end') return ' (the body has ended, unrecorded)'
  if (((what === 'model' || what === 'compaction') && kind === 'during') || (what === 'verify' && kind === 'end'))
    return ' (it has answered, unrecorded)'
  if (what === 'flush' && kind === 'during') return ' (written, not committed)'
  return ''
}

/** Another mark of the call may name the tool. */
function toolOf(marks: readonly Mark[], id: string): string | undefined {
  const [place] = id.split('/')
  return marks.find((mark) => mark.tool !== undefined && mark.id.startsWith(`${place}/`))?.tool
}
