// Events without their contents. They keep ids and positions, so that readers can survey a whole session in little memory.
import type { SessionEvent } from './events.ts'

/** Texts of people, models and tools. Their first character stays, because an empty text may mean something else. */
const TEXTS = new Set(['content', 'text', 'thinking', 'signature', 'data', 'summary', 'preview', 'message', 'note', 'outputProblem'])
/** JSON of users' code. */
const PAYLOADS = new Set(['value', 'input', 'metadata', 'context', 'data', 'args', 'output'])

/** The event without contents. It keeps its members, ids, numbers, and the number of blocks. */
export function lightOf<E extends SessionEvent>(event: E): E {
  return Object.fromEntries(Object.entries(event).map(([name, value]) => [name, light(value, name)])) as unknown as E
}

function light(value: unknown, name: string): unknown {
  if (typeof value === 'string') return TEXTS.has(name) ? value.slice(0, 1) : value
  if (value === null || typeof value !== 'object') return value
  if (PAYLOADS.has(name)) return null
  if (Array.isArray(value)) return value.map((item) => light(item, name))
  return Object.fromEntries(Object.entries(value).map(([inner, member]) => [inner, light(member, inner)]))
}
