// Arbitrary input: all requests of the protocol, with members that are missing, of another type, too large, too deep or misnamed.
import fc from 'fast-check'
import { isAgentName } from '../../src/session/protocol/protocol.ts'

/** JSON text, because no JavaScript value prints as some valid JSON; undefined if absent. */
type Text = string | undefined

/** The template of a request: the valid JSON text of each member, or of the members within it. */
export type Shape = { [member: string]: string | Shape }

/** The payloads of a request's one argument: normally one, or none. */
export interface SentArgument {
  /** A description for the message of a failed test. */
  what: string
  payloads: { metadata: Record<string, Uint8Array>; data: Uint8Array }[]
}

interface Odd {
  what: string
  text: Text
}

const odd = (what: string, text: Text = what): Odd => ({ what, text })

const OTHER_TYPES = [
  'null',
  'true',
  'false',
  '0',
  '-1',
  '1.5',
  '1e18',
  '1000000',
  '1e400',
  '-0',
  '""',
  '" "',
  '"some text"',
  '"\\ud800"',
  '"\\u0000"',
  '[]',
  '{}',
  '[null]',
  '[[]]',
].map((text) => odd(text))

/** Names that code may look up in its input, and the names that pawl's own markers use or used. */
const NAMES = [
  '{"__pawl_undecodable__":{"toString":1}}',
  '{"reason":{"toString":1}}',
  '{"toString":1,"valueOf":1}',
  '{"toJSON":1}',
  '{"__proto__":{"reason":1}}',
  '{"constructor":{"prototype":1}}',
  '{"then":1}',
  '{"length":-1,"0":1}',
  '{"a":1,"a":2}',
].map((text) => odd(text))

const nested = (open: string, close: string, depth: number): Odd =>
  odd(`${depth} × ${open}`, `${open.repeat(depth)}1${close.repeat(depth)}`)

/** Depths around the one that is allowed, around the one that can be decoded, and beyond both. */
const DEEP = [490, 499, 500, 501, 510, 598, 602, 3_000].flatMap((depth) => [nested('[', ']', depth), nested('{"a":', '}', depth)])

const large = (bytes: number): Odd[] => [
  odd(`text of ${bytes} bytes`, `"${'x'.repeat(bytes)}"`),
  odd(`${bytes} bytes of quotes`, `"${'\\"'.repeat(bytes / 2)}"`),
  odd(`a list of ${bytes} bytes`, `[${'1,'.repeat(bytes / 2)}1]`),
  odd(`an object of ${bytes} bytes`, `{${Array.from({ length: bytes / 12 }, (_, n) => `"k${n}":${n}`).join(',')}}`),
]

/** Values that hardly any member should have. */
function odds(bytes: number): fc.Arbitrary<Odd> {
  return fc.oneof(
    { weight: 1, arbitrary: fc.constant(odd('missing', undefined)) },
    { weight: 4, arbitrary: fc.constantFrom(...OTHER_TYPES) },
    { weight: 3, arbitrary: fc.constantFrom(...NAMES) },
    { weight: 2, arbitrary: fc.constantFrom(...DEEP) },
    { weight: 2, arbitrary: fc.constantFrom(...large(bytes)) },
    {
      weight: 1,
      arbitrary: fc
        .json()
        .filter(isNoAgent)
        .map((text) => odd(text)),
    },
  )
}

/** Leaves out valid names of agents: a session that is started for another agent rightly refuses messages to the test's. */
const isNoAgent = (text: string): boolean => !isAgentName(JSON.parse(text))

function textOf(shape: string | Shape): string {
  return typeof shape === 'string' ? shape : objectOf(Object.entries(shape).map(([name, inner]) => [name, textOf(inner)]))
}

function objectOf(members: [string, Text][]): string {
  return `{${members.flatMap(([name, text]) => (text === undefined ? [] : [`${JSON.stringify(name)}:${text}`])).join(',')}}`
}

/** A value of the shape in which something is odd: the value as a whole, or one or two of its members. */
function oddly(shape: string | Shape, bytes: number): fc.Arbitrary<Odd> {
  if (typeof shape === 'string') return odds(bytes)
  const members = Object.keys(shape)
  const within = fc.subarray(members, { minLength: 1, maxLength: Math.min(2, members.length) }).chain((chosen) =>
    fc.tuple(...chosen.map((name) => oddly(shape[name] ?? '', bytes).map((one) => [name, one] as const))).map((spoilt) => {
      const by = new Map(spoilt)
      const text = objectOf(members.map((name) => [name, by.has(name) ? by.get(name)?.text : textOf(shape[name] ?? '')]))
      return odd(spoilt.map(([name, { what }]) => `${name}: ${what}`).join(', '), text)
    }),
  )
  const more = odds(bytes).map(({ what, text }) =>
    odd(
      `another member: ${what}`,
      objectOf([...Object.entries(shape).map(([name, inner]): [string, Text] => [name, textOf(inner)]), ['other', text]]),
    ),
  )
  return fc.oneof({ weight: 8, arbitrary: within }, { weight: 2, arbitrary: odds(bytes) }, { weight: 1, arbitrary: more })
}

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

function payloadOf(text: string, encoding = 'json/plain'): SentArgument['payloads'][number] {
  return { metadata: { encoding: bytesOf(encoding) }, data: bytesOf(text) }
}

/** Payloads from which no value can be read, no payload, and too many of them. */
const NOT_ARGUMENTS: SentArgument[] = [
  { what: 'no argument', payloads: [] },
  { what: 'two arguments', payloads: [payloadOf('{}'), payloadOf('{}')] },
  { what: 'broken JSON', payloads: [payloadOf('{"content": ')] },
  { what: 'no metadata', payloads: [{ metadata: {}, data: bytesOf('{}') }] },
  { what: 'an unknown encoding', payloads: [payloadOf('\0\u0001', 'binary/of-another')] },
  { what: 'protobuf', payloads: [payloadOf('{"x":1}', 'json/protobuf')] },
  { what: 'bytes', payloads: [payloadOf('{}', 'binary/plain')] },
  { what: 'null without data', payloads: [payloadOf('', 'binary/null')] },
  { what: 'an endless encoding', payloads: [payloadOf('{}', 'x'.repeat(10_000))] },
]

/** An arbitrary argument of a request. `bytes`: what counts as large. */
export function argumentOf(shape: Shape, bytes: number): fc.Arbitrary<SentArgument> {
  return fc.oneof(
    {
      weight: 9,
      arbitrary: oddly(shape, bytes).map(
        ({ what, text }): SentArgument => ({ what, payloads: text === undefined ? [] : [payloadOf(text)] }),
      ),
    },
    { weight: 1, arbitrary: fc.constantFrom(...NOT_ARGUMENTS) },
  )
}

const SETTINGS: Shape = { idleTimeoutMs: '60000', notServedAfterMs: '60000' }
const STATE: Shape = { v: '1', sessionId: '"another"', agent: '"helped"', seq: '40', run: '7', current: 'null', inbox: '[]', unknown: '{}' }
const BY = '"ann"'
const CALL = '"<call>"'

/** A request of the protocol. For a start, `name` is only a description. */
export interface Request {
  kind: 'signal' | 'update' | 'query' | 'start'
  name: string
  shape: Shape
}

const of = (kind: Request['kind'], shapes: [string, Shape][]): Request[] => shapes.map(([name, shape]) => ({ kind, name, shape }))

/** The requests of the protocol. A placeholder in `<…>` is filled in for the session that receives the request. */
export const PROTOCOL: readonly Request[] = [
  ...of('signal', [
    [
      'message',
      {
        messageId: '"<new>"',
        content: '"an odd message"',
        metadata: { key: '"value"' },
        agent: '"helped"',
        context: { tenant: '"t"' },
      },
    ],
    [
      'message',
      {
        content: '[{"type":"text","text":"an odd message"}]',
        blob: { sha256: `"${'0a'.repeat(32)}"`, bytes: '120000', preview: '"an odd"' },
      },
    ],
    ['message ', { content: '"to a signal of another name"' }],
    ['constructor', { content: '"to a signal of another name"' }],
    ['interrupt', { reason: '"because"', by: BY }],
    ['close', { reason: '"because"', by: BY }],
  ]),
  ...of('update', [
    ['recover', { strategy: '"abandon"', by: BY }],
    ['resume', { by: BY }],
    ['checkpoint', { reason: '"because"', by: BY }],
    ['rollback', { target: { run: '1' }, reason: '"because"', by: BY }],
    ['fork', { target: { checkpoint: '1' }, interrupt: 'false', by: BY }],
    ['approve', { callId: CALL, digest: '"<digest>"', by: BY, note: '"fine"', input: { what: '"another"' } }],
    ['deny', { callId: CALL, digest: '"<digest>"', by: BY, note: '"no"', reason: '"because"' }],
    ['resolve', { callId: CALL, resolution: { happened: 'true', result: '"found"' }, by: BY, note: '"saw it"' }],
    ['answer', { callId: CALL, result: '"an answer"', by: BY }],
    ['approved', { callId: CALL }],
  ]),
  ...of('query', [
    ['events', { after: '3', maxBytes: '1000' }],
    ['state', { after: '3' }],
    ['stated', { after: '3' }],
  ]),
  ...of('start', [
    ['a session', { sessionId: '"another"', agent: '"helped"', context: { tenant: '"t"' }, tags: '["a"]', settings: SETTINGS }],
    ['an update', { agent: '"helped"', isNew: 'false', mustExist: 'true', settings: SETTINGS }],
    ['a successor', { agent: '"helped"', unreplayable: { executionId: '"another"', reason: '"broken"', times: '1' } }],
    [
      'a fork',
      { agent: '"helped"', fork: { from: '"<session>"', seq: '3', digest: '"00"', keys: '"carried"', by: BY, target: { run: '1' } } },
    ],
    [
      'what is carried',
      { agent: '"helped"', carried: { coreVersion: '2', state: STATE, digest: '"00"', tail: '[]', previous: '"another"' } },
    ],
  ]),
]

/** The payloads with their placeholders filled in. */
export function putIn({ payloads }: SentArgument, values: Record<string, string>): SentArgument['payloads'] {
  const fill = (text: string): string => text.replaceAll(/<(new|session|call|digest)>/g, (_, name: string) => values[name] ?? '')
  return payloads.map(({ metadata, data }) => ({ metadata, data: bytesOf(fill(new TextDecoder().decode(data))) }))
}
