// Reading a request never throws, whatever it contains, and the result is plain JSON within its bounds.
import { type Payload, defaultPayloadConverter, METADATA_ENCODING_KEY } from '@temporalio/common'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkMessage, contextProblem, tagsProblem } from '../../../src/session/protocol/incoming.ts'
import { isTooDeep } from '../../../src/session/json.ts'
import { isAgentName, isSessionId } from '../../../src/session/protocol/protocol.ts'
import { plainOf, requestOf, targetIn } from '../../../src/session/protocol/requests.ts'
import { checkStart } from '../../../src/session/protocol/start.ts'
import { Undecodable } from '../../../src/session/protocol/undecodable.ts'
import { totalConverter } from '../../../src/workflows/payload-converter.ts'
import { argumentOf, PROTOCOL, type Request } from '../../support/anything.ts'
import { size } from '../../support/sizes.ts'

const converter = totalConverter(defaultPayloadConverter)

/** What a workflow receives as the argument of a request of one of these kinds. */
function anything(...kinds: Request['kind'][]): fc.Arbitrary<unknown> {
  const requests = PROTOCOL.filter(({ kind }) => kinds.includes(kind))
  return fc
    .constantFrom(...requests)
    .chain(({ shape }) => argumentOf(shape, 20_000))
    .map(({ payloads: [payload] }) => (payload ? converter.fromPayload(payload) : undefined))
}

/** Expects JSON that survives a round trip through its text. */
function expectPlain(value: unknown): void {
  expect(isTooDeep(value)).toBe(false)
  expect(JSON.parse(JSON.stringify(value))).toEqual(value)
}

describe('any input', () => {
  it('any input sent as a message is accepted as plain JSON, or refused with a reason that can be recorded', () => {
    fc.assert(
      fc.property(fc.oneof(anything('signal', 'update', 'start'), fc.anything()), (raw) => {
        const checked = checkMessage(raw)
        if ('refusal' in checked) {
          expect(checked.refusal.reason.length).toBeLessThan(1_000)
          expectPlain(checked)
        } else {
          const { context, ...message } = checked.message
          expectPlain(message)
          expect(checkMessage(checked.message)).toEqual(checked)
          expect(() => contextProblem(context)).not.toThrow()
        }
      }),
      { numRuns: size(300, 1_000) },
    )
  })

  it('any input sent as a start is reduced to its valid members, and never read as a state that continue-as-new carried', () => {
    fc.assert(
      fc.property(fc.oneof(anything('start'), fc.anything()), fc.option(fc.uuid(), { nil: undefined }), (raw, continuedFrom) => {
        const start = checkStart(raw, continuedFrom)
        expect(start.carried).toBeUndefined()
        expectPlain(start)
        expect(start.agent === undefined || isAgentName(start.agent)).toBe(true)
        expect(start.fork === undefined || isSessionId(start.fork.from)).toBe(true)
        expect(() => tagsProblem(start.tags)).not.toThrow()
        if (continuedFrom !== undefined) expect(start.isNew).toBeUndefined()
      }),
      { numRuns: size(300, 1_000) },
    )
  })

  it('any input sent as any other request is read as an object of plain JSON with one target or none', () => {
    fc.assert(
      fc.property(fc.oneof(anything('signal', 'update', 'query'), fc.anything()), (raw) => {
        const request = requestOf<{ target?: unknown }>(raw)
        expectPlain(request)
        const target = targetIn(request.target)
        if (target) expect(Object.keys(target)).toHaveLength(1)
      }),
      { numRuns: size(300, 1_000) },
    )
  })

  it('any input in any payload is decoded, or becomes an Undecodable, which no sender can send', () => {
    const payload: fc.Arbitrary<Payload> = fc.record({
      metadata: fc.oneof(
        fc.constantFrom('json/plain', 'json/protobuf', 'binary/null', 'binary/plain', 'x').map((name) => ({
          [METADATA_ENCODING_KEY]: new TextEncoder().encode(name),
        })),
        fc.constantFrom(null, undefined, {}),
      ),
      data: fc.oneof(
        fc.uint8Array(),
        fc.json().map((text) => new TextEncoder().encode(text)),
        fc.constantFrom(null, undefined),
      ),
    }) as fc.Arbitrary<Payload>
    fc.assert(
      fc.property(payload, (given) => {
        const value = converter.fromPayload(given)
        if (value instanceof Undecodable) expect(value.reason).toMatch(/^no value can be read from \d+ bytes with the encoding "/)
        expect(() => plainOf(value)).not.toThrow()
      }),
      { numRuns: size(300, 1_000) },
    )
  })
})

it('a start carries a state only if it names the execution before it', () => {
  const carried = { coreVersion: 2, state: { seq: 4 }, digest: 'd', previous: 'the-one-before' }
  expect(checkStart({ carried }, 'the-one-before').carried).toEqual(carried)
  for (const other of ['another', undefined]) expect(checkStart({ carried }, other).carried).toBeUndefined()
  for (const broken of [{ coreVersion: '2' }, { state: null }, { state: {} }, { digest: 1 }, { tail: {} }]) {
    expect(checkStart({ carried: { ...carried, ...broken } }, 'the-one-before').carried).toBeUndefined()
  }
})

it('a history must have room for more than continue-as-new carries into it', () => {
  const historyOf = (history: unknown) => checkStart({ settings: { history } }, undefined).settings?.history
  expect(historyOf({ events: 250, bytes: 2_000_000 })).toEqual({ events: 250, bytes: 2_000_000 })
  expect(historyOf({ events: 1, bytes: 1 })).toEqual({ events: 100, bytes: 1_000_000 })
  expect(historyOf({ events: -1, bytes: 'many' })).toEqual({})
  expect(historyOf('short')).toBeUndefined()
})
