// The standing approvals that settle a group of calls. Pure.
import { isObject, type Json } from '../../../src/session/json.ts'
import type { InputBound, RememberRequest, RuleMatching } from '../../../src/session/standing/facts.ts'
import { rememberProblem } from '../../../src/session/standing/rules.ts'
import type { PendingRow } from '../api/rows.ts'
import { sessionsOf } from './groups.ts'

/** Arguments that a standing approval may cover, the narrowest first. */
export interface Coverage {
  title: string
  matching: RuleMatching
}

/** What may be covered by a rule that approves calls with all of these inputs. pawl refuses a rule that is too long. */
export function coveragesOf(inputs: readonly unknown[]): Coverage[] {
  const distinct = [...new Map(inputs.map((input) => [JSON.stringify(input), input])).values()] as Json[]
  const narrow: RuleMatching = distinct.length === 1 ? 'input' : { '': { oneOf: distinct } }
  const bounds = boundsOf(distinct)
  const all: Coverage[] = [
    { title: distinct.length === 1 ? 'these arguments' : 'exactly the arguments of these calls', matching: narrow },
    ...(bounds && distinct.length > 1 ? [{ title: wordsOf(bounds), matching: bounds }] : []),
    { title: 'any arguments', matching: 'tool' },
  ]
  return all.filter(({ matching }) => rememberProblem({ for: 'session', matching }) === undefined)
}

/** For each member of the inputs, what its values lie within; undefined if not all inputs have the same members. */
function boundsOf(inputs: readonly unknown[]): Record<string, InputBound> | undefined {
  const [first] = inputs
  if (!isObject(first) || !inputs.every(isObject)) return undefined
  const names = Object.keys(first)
  if (names.length === 0 || inputs.some((input) => Object.keys(input).length !== names.length)) return undefined
  if (!names.every((name) => inputs.every((input) => Object.hasOwn(input, name)))) return undefined
  const pointer = (name: string): string => `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
  return Object.fromEntries(names.map((name) => [pointer(name), boundOf(inputs.map((input) => input[name] as Json))]))
}

function boundOf(values: readonly Json[]): InputBound {
  const distinct = [...new Map(values.map((value) => [JSON.stringify(value), value])).values()]
  if (distinct.length === 1) return { equals: distinct[0] as Json }
  if (distinct.every((value) => typeof value === 'number')) return { min: Math.min(...distinct), max: Math.max(...distinct) }
  return { oneOf: distinct }
}

/** Bounds in words. */
function wordsOf(bounds: Record<string, InputBound>): string {
  return Object.entries(bounds)
    .map(([pointer, bound]) => `${pointer === '' ? 'all' : pointer.slice(1)} is ${wordsOfBound(bound)}`)
    .join(', ')
}

function wordsOfBound({ equals, oneOf, min, max }: InputBound): string {
  if (oneOf !== undefined) return `one of ${oneOf.map((value) => JSON.stringify(value)).join(', ')}`
  if (equals !== undefined) return JSON.stringify(equals)
  if (min === undefined) return `at most ${max?.toLocaleString('en')}`
  return max === undefined ? `at least ${min.toLocaleString('en')}` : `from ${min} to ${max}`
}

/** The arguments that a rule covers, in words. */
export function wordsForMatching(matching: RuleMatching): string {
  if (matching === 'tool') return 'any arguments'
  if (matching === 'input') return 'the same arguments'
  return `if ${wordsOf(matching)}`
}

/** What a person remembers with the approval of the first call, so that the other calls are approved, too, and later ones. */
export function rememberFor(rows: readonly PendingRow[], matching: RuleMatching): RememberRequest {
  // Only sessions with the same context share a group.
  return { for: sessionsOf(rows).length > 1 ? 'context' : 'session', matching }
}
