// The table that a crash test prints: a line per call, a column per stage, and the differences below it.
import type { Boundary } from './boundaries.ts'
import type { Difference } from './compare.ts'
import type { BoundaryResult, RoundResult } from './types.ts'
import { counted } from '../../session/counted.ts'
import { COLUMNS, wrapped } from './wrapped.ts'

const GAP = '  '
const STAGES = ['before', 'during', 'after'] as const
const WORST_FIRST = ['differs', 'unknown', 'not_reached', 'ok'] as const
const SHOWN = { ok: 'ok', differs: 'DIFFERS', unknown: 'not known', not_reached: 'not reached' } as const

/** What the table shows. */
interface TableContent {
  boundaries: readonly BoundaryResult[]
  rounds: readonly RoundResult[]
  problems: readonly string[]
  notes: readonly string[]
  seed: number
}

/** The table of boundaries, the rounds, the differences, and a closing line, for a terminal with so many columns. */
export function tableOf(result: TableContent, columns = COLUMNS): string {
  const { boundaries, rounds, problems, notes, seed } = result
  const folded = (text: string, first?: string): string[] => wrapped(text, { first, columns })
  const roundLines = aligned(
    rounds.flatMap(({ round, troubles, verdict }) => {
      const [first = 'no fault occurred', ...more] = troubles
      return [[`random round ${round}`, SHOWN[verdict], first], ...more.map((trouble) => ['', '', trouble])]
    }),
  )
  const details = [
    ...notes.flatMap((text) => folded(`without kills (may be intended): ${text}`, '- ')),
    ...problems.flatMap((text) => folded(`even without kills: ${text}`, '- ')),
    ...boundaries.flatMap(({ boundary, differences }) => detail(boundary.name, differences, folded)),
    ...rounds.flatMap(({ round, differences }) => detail(`random round ${round}`, differences, folded)),
  ]
  return [
    ...gridOf(boundaries, columns),
    ...section(roundLines),
    ...section(details),
    ...section(advice(boundaries).flatMap((text) => folded(text))),
    '',
    ...folded(closing(boundaries, rounds, problems, seed)),
  ]
    .join('\n')
    .trimStart()
}

/** A line per call. A name that does not fit beside the cells is written above them, because people copy it into `--only`. */
function gridOf(boundaries: readonly BoundaryResult[], columns: number): string[] {
  if (boundaries.length === 0) return []
  const subjects = [...new Set(boundaries.map(({ boundary }) => boundary.subject))]
  const cells = aligned([[...STAGES], ...subjects.map((subject) => STAGES.map((stage) => cell(boundaries, subject, stage)))])
  const room = columns - GAP.length - Math.max(...cells.map((line) => line.length))
  const names = ['killed at', ...subjects].map((name) => {
    if (name.length <= room) return { above: [], beside: name }
    const above = wrapped(
      name.replace(/\(.*\)$/, (call) => call.replaceAll(' ', '\u00a0')),
      { columns, rest: GAP },
    ).map((line) => line.replaceAll('\u00a0', ' '))
    const last = above.at(-1) ?? ''
    return last.length <= room ? { above: above.slice(0, -1), beside: last } : { above, beside: '' }
  })
  const lines = aligned(names.map(({ beside }, row) => [beside, cells[row] ?? '']))
  return names.flatMap(({ above }, row) => [...above, lines[row] ?? ''])
}

function detail(name: string, differences: readonly Difference[], folded: (text: string, first: string) => string[]): string[] {
  if (differences.length === 0) return []
  return [...folded(name, '- '), ...differences.flatMap(({ where, text }) => folded(`${where}: ${text}`, '    '))]
}

/** The usual causes, if a kill during a tool call changed the effects. */
function advice(boundaries: readonly BoundaryResult[]): string[] {
  const changed = boundaries.filter(({ boundary, verdict }) => boundary.what === 'tool' && verdict === 'differs')
  const toolsWhere = (pattern: RegExp): string[] => [
    ...new Set(
      changed.flatMap(({ boundary, differences }) =>
        differences.some(({ where, text }) => where === 'effects' && pattern.test(text)) ? [boundary.tool ?? '?'] : [],
      ),
    ),
  ]
  const repeated = toolsWhere(/more than without kills/)
  const verified = repeated.filter((tool) => boundaries.some(({ boundary }) => boundary.tool === tool && boundary.verifies))
  const others = repeated.filter((tool) => !verified.includes(tool))
  const missing = toolsWhere(/is missing/)
  const asking = boundaries.flatMap(({ boundary, verdict }) =>
    boundary.what === 'verify' && verdict === 'differs' ? [boundary.tool ?? '?'] : [],
  )
  const unknown = [...new Set(boundaries.flatMap(({ boundary, verdict }) => (verdict === 'unknown' ? [boundary.tool ?? '?'] : [])))]
  return [
    ...(verified.length > 0
      ? [
          `${verified.join(', ')} repeated an effect: \`verify\` answered { happened: false } although it had happened. Look it up by ` +
            "ctx.idempotencyKey in a record that the service writes before it acts; if the service cannot be sure, return { happened: 'unknown' }.",
        ]
      : []),
    ...(others.length > 0
      ? [
          `${others.join(', ')} repeated an effect. Send ctx.idempotencyKey, which is the same on each attempt, to a service that honours it, ` +
            "or declare the tool 'external' with a `verify`.",
        ]
      : []),
    ...(missing.length > 0 ? [`${missing.join(', ')} lost an effect. Record that something is done after doing it, never before.`] : []),
    ...(asking.length > 0
      ? [
          `verify of ${[...new Set(asking)].join(', ')} is called again when its process dies, and must then return the same answer: ` +
            'it must only read.',
        ]
      : []),
    ...(unknown.length > 0 ? [`${unknown.join(', ')} has no \`verify\`. Add one, or a person has to find out what happened.`] : []),
  ]
}

function closing(boundaries: readonly BoundaryResult[], rounds: readonly RoundResult[], problems: readonly string[], seed: number): string {
  const verdicts = [...boundaries, ...rounds].map(({ verdict }) => verdict)
  const count = (wanted: (typeof verdicts)[number]): number => verdicts.filter((verdict) => verdict === wanted).length
  const parts = [
    `${counted(boundaries.length, 'boundary', 'boundaries')} and ${counted(rounds.length, 'random round')}`,
    `${count('ok')} the same as without kills`,
    ...(count('differs') > 0 ? [`${count('differs')} DIFFER`] : []),
    ...(count('unknown') > 0 ? [`${count('unknown')} with an unknown outcome`] : []),
    ...(count('not_reached') > 0 ? [`${count('not_reached')} not reached`] : []),
    ...(problems.length > 0 ? [`${problems.length} wrong even without kills`] : []),
    ...(rounds.length > 0 ? [`seed ${seed}`] : []),
  ]
  return parts.join(', ')
}

/** The worst verdict among a call's boundaries of one stage. */
function cell(boundaries: readonly BoundaryResult[], subject: string, stage: Boundary['stage']): string {
  const verdicts = boundaries
    .filter(({ boundary }) => boundary.subject === subject && boundary.stage === stage)
    .map(({ verdict }) => verdict)
  const worst = WORST_FIRST.find((verdict) => verdicts.includes(verdict))
  return worst ? SHOWN[worst] : '-'
}

function section(lines: readonly string[]): string[] {
  return lines.length > 0 ? ['', ...lines] : []
}

function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows.map((row) =>
    row
      .map((text, column) => text.padEnd(widths[column] ?? 0))
      .join(GAP)
      .trimEnd(),
  )
}
