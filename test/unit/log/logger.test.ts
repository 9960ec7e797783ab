// What a logger receives: plain fields, bounded and without secrets, whatever the caller passes.
import { afterEach, describe, expect, it, vi } from 'vitest'
import { pino } from 'pino'
import type { Logger } from '../../../src/agent/tool.ts'
import { openLogger, withFields } from '../../../src/log/logger.ts'
import { sendingLogger } from '../../../src/log/sending-logger.ts'
import { userLogger } from '../../../src/log/user-logger.ts'

type Line = [level: string, fields: Record<string, unknown>, message: string]

function opened(more: { redact?: string[] } & Partial<Logger> & { isLevelEnabled?(level: string): boolean } = {}): {
  log: Logger
  lines: Line[]
} {
  const { redact, ...logger } = more
  const lines: Line[] = []
  const at =
    (level: string) =>
    (fields: object, message = '') =>
      void lines.push([level, fields as Line[1], message])
  const to = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), ...logger }
  return { log: openLogger({ to: userLogger(to), redact }), lines }
}

afterEach(() => vi.unstubAllEnvs())

describe('a logger', () => {
  it('a logger gets no secrets, at any depth, by default, by option and by PAWL_LOG_REDACT', () => {
    vi.stubEnv('PAWL_LOG_REDACT', 'iban, customer.phone')
    const { log, lines } = opened({ redact: ['email'] })
    const customer = { id: 7, email: 'a@b.c', phone: '555' }
    log.info({ args: { orders: [{ token: 't', customer }], iban: 'DE1' }, phone: '556' }, 'called')
    const hidden = { id: 7, email: '[redacted]', phone: '[redacted]' }
    expect(lines).toEqual([
      ['info', { args: { orders: [{ token: '[redacted]', customer: hidden }], iban: '[redacted]' }, phone: '556' }, 'called'],
    ])
  })

  it('a logger gets errors as errors, with their names, codes and causes, but without what HTTP clients attach to them', () => {
    const written: string[] = []
    const log = openLogger({ to: userLogger(pino({ base: null }, { write: (line) => void written.push(line) })) })
    const cause = Object.assign(new RangeError('refused'), { code: 'ECONNREFUSED' })
    const request = { config: { headers: { authorization: 'Bearer x' } } }
    log.error({ err: Object.assign(new TypeError('failed', { cause }), request, { code: 'E_1' }) }, 'no')
    const { err } = JSON.parse(written.join()) as { err: object }
    expect(err).toEqual({
      type: 'TypeError',
      message: 'failed: refused',
      code: 'E_1',
      stack: expect.stringMatching(/TypeError.*RangeError/s),
    })
    const { log: another, lines } = opened()
    another.error({ err: cause })
    expect(lines[0]?.[1].err).toBeInstanceOf(Error)
    expect(lines[0]?.[1].err).toMatchObject({ name: 'RangeError', message: 'refused', code: 'ECONNREFUSED' })
  })

  it('a logger in another process gets the same line', () => {
    const { log: user, lines } = opened()
    const between = openLogger({ to: sendingLogger(({ level, fields, message }) => user[level](structuredClone(fields), message)) })
    between.warn({ err: Object.assign(new TypeError('failed'), { code: 'E_1' }), password: 'x' }, 'no')
    expect(lines).toEqual([['warn', { err: expect.objectContaining({ name: 'TypeError', code: 'E_1' }), password: '[redacted]' }, 'no']])
  })

  it('a logger gets bounded data that any process can send to another one', () => {
    const { log, lines } = opened()
    const circle: Record<string, unknown> = { many: Array.from({ length: 5_000 }, () => 1), long: 'x'.repeat(10_000) }
    circle.self = circle
    const more = { bytes: new Uint8Array(3), map: new Map([['token', 1]]), big: 5n, when: new Date(0), run: () => 1 }
    log.debug({ ...more, circle, gone: undefined })
    const [[, fields]] = lines as [Line]
    expect(fields).toMatchObject({ bytes: '[3 bytes]', map: { token: '[redacted]' }, big: '5', when: '1970-01-01T00:00:00.000Z' })
    expect(fields).toMatchObject({ run: '[function]', circle: { self: '[circular]' } })
    expect(JSON.stringify(fields).length).toBeLessThan(8_000)
    expect(structuredClone(fields)).toEqual(fields)
  })

  const throwing = (): never => {
    throw new Error('read')
  }

  it.each<[string, object, unknown]>([
    ['an error', { err: Object.defineProperty(new RangeError('x'), 'message', { get: throwing }) }, { err: { name: 'RangeError' } }],
    ['a proxy', { err: new Proxy({}, { ownKeys: throwing }) }, { err: '[unreadable]' }],
    ['a map whose keys have no text', { err: new Map([[Object.create(null), 1]]) }, { err: '[unreadable]' }],
    ['everything', new Proxy({}, { ownKeys: throwing }), { fields: '[unreadable]' }],
  ])('a logger writes a line although %s in it cannot be read', (_, fields, shown) => {
    const { log, lines } = opened()
    log.warn(fields, 'no')
    expect(lines).toEqual([['warn', expect.objectContaining({}), 'no']])
    expect(lines[0]?.[1]).toMatchObject(shown as object)
  })

  it('a logger accepts an error or a text alone, as pino does', () => {
    const { log, lines } = opened()
    const loose = log as unknown as Record<'warn', (first?: unknown) => void>
    loose.warn('only a text')
    loose.warn(new Error('only an error'))
    loose.warn()
    expect(lines.map(([, , message]) => message)).toEqual(['only a text', 'only an error', ''])
    expect(lines[1]?.[1]).toMatchObject({ err: { message: 'only an error' } })
  })

  it('a logger that throws does no harm, nor do fields that cannot be read', () => {
    const broken = opened({
      warn: () => {
        throw new Error('disk full')
      },
    })
    broken.log.warn({}, 'lost')
    const { log, lines } = opened()
    const trap = {
      get value() {
        throw new Error('a trap')
      },
    }
    log.warn({ trap }, 'kept')
    expect(lines).toEqual([['warn', { trap: { value: '[unreadable]' } }, 'kept']])
  })

  it('a logger is not called for levels that it says it does not write', () => {
    const { log, lines } = opened({ isLevelEnabled: (level) => level !== 'debug' })
    log.debug({}, 'no')
    log.info({}, 'yes')
    expect(lines.map(([level]) => level)).toEqual(['info'])
  })

  it('a logger bound to a place names the place in every line, and other fields cannot replace it', () => {
    const { log, lines } = opened()
    withFields(log, { session: 's1', run: 2 }).info({ session: 'another', order: 7 }, 'hello')
    expect(lines).toEqual([['info', { session: 's1', run: 2, order: 7 }, 'hello']])
  })
})

describe('PAWL_LOG_LEVEL', () => {
  it('PAWL_LOG_LEVEL that is not a level is refused', () => {
    vi.stubEnv('PAWL_LOG_LEVEL', 'verbose')
    expect(() => openLogger({})).toThrow('PAWL_LOG_LEVEL is "verbose". Set it to one of trace, debug, info, warn, error, fatal, silent.')
  })
})
