// Whatever is sent, reading it does not throw, and what is made of it is plain JSON within its bounds.
import { type Payload, defaultPayloadConverter, METADATA_ENCODING_KEY } from '@temporalio/common'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkMessage, contextProblem, tagsProblem } from '../../../src/session/incoming.ts'
import { isTooDeep } from '../../../src/session/json.ts'
import { isAgentName, isSessionId } from '../../../src/session/protocol.ts'
import { plainOf, requestOf, targetIn } from '../../../src/session/requests.ts'
import { checkStart } from '../../../src/session/start.ts'
import { Undecodable } from '../../../src/session/undecodable.ts'
import { totalConverter } from '../../../src/workflows/payload-converter.ts'
import { argumentOf, PROTOCOL, type Request } from '../../support/anything.ts'

const converter = totalConverter(defaultPayloadConverter)

/** What a workflow is handed for arguments of the protocol's requests of one kind. */
function anything(...kinds: Request['kind'][]): fc.Arbitrary<unknown> {
  const requests = PROTOCOL.filter(({ kind }) => kinds.includes(kind))
  return fc
    .constantFrom(...requests)
    .chain(({ shape }) => argumentOf(shape, 20_000))
    .map(({ payloads: [payload] }) => (payload ? converter.fromPayload(payload) : undefined))
}

/** JSON that its own text gives back. */
function expectPlain(value: unknown): void {
  expect(isTooDeep(value)).toBe(false)
  expect(JSON.parse(JSON.stringify(value))).toEqual(value)
}

describe('whatever is sent', () => {
  it('as a message is taken as plain JSON, or refused with a reason that can be recorded', () => {
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
      { numRuns: 1_000 },
    )
  })

  it('as a start is read as what makes sense of it, and never as what continue-as-new carried', () => {
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
      { numRuns: 1_000 },
    )
  })

  it('as another request is an object of plain JSON, whose target is one or none', () => {
    fc.assert(
      fc.property(fc.oneof(anything('signal', 'update', 'query'), fc.anything()), (raw) => {
        const request = requestOf<{ target?: unknown }>(raw)
        expectPlain(request)
        const target = targetIn(request.target)
        if (target) expect(Object.keys(target)).toHaveLength(1)
      }),
      { numRuns: 1_000 },
    )
  })

  it('by whatever payload is decoded, or becomes what nothing that was sent can be', () => {
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
      { numRuns: 1_000 },
    )
  })
})

it('a start carries a state where it names the execution before it, and only there', () => {
  const carried = { coreVersion: 2, state: { seq: 4 }, digest: 'd', previous: 'the-one-before' }
  expect(checkStart({ carried }, 'the-one-before').carried).toEqual(carried)
  for (const other of ['another', undefined]) expect(checkStart({ carried }, other).carried).toBeUndefined()
  for (const broken of [{ coreVersion: '2' }, { state: null }, { state: {} }, { digest: 1 }, { tail: {} }]) {
    expect(checkStart({ carried: { ...carried, ...broken } }, 'the-one-before').carried).toBeUndefined()
  }
})

it('a history must have room for more than what continue-as-new carries into it', () => {
  const historyOf = (history: unknown) => checkStart({ settings: { history } }, undefined).settings?.history
  expect(historyOf({ events: 250, bytes: 2_000_000 })).toEqual({ events: 250, bytes: 2_000_000 })
  expect(historyOf({ events: 1, bytes: 1 })).toEqual({ events: 100, bytes: 1_000_000 })
  expect(historyOf({ events: -1, bytes: 'many' })).toEqual({})
  expect(historyOf('short')).toBeUndefined()
})
