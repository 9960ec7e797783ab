// Which options a client refuses, and how it reads the others.
import { describe, expect, it } from 'vitest'
import { checkConnect, type ConnectOptions } from '../../../src/client/connect-options.ts'
import { checkSend, checkSession, checkWait } from '../../../src/client/session/options.ts'
import { Pawl } from '../../../src/client/pawl.ts'

const refusal = (message: string) =>
  expect.objectContaining({ name: 'InvalidOptionError', code: 'invalid_option', message: expect.stringContaining(message) })

describe('a session', () => {
  it('a session accepts the agent or its name', () => {
    expect(checkSession({ agent: 'support' })).toEqual({ agent: 'support', settings: {} })
    expect(checkSession({ agent: { name: 'support', tools: new Map() } })).toEqual({ agent: 'support', settings: {} })
    expect(checkSession()).toEqual({ settings: {} })
  })

  it('a session reads durations as milliseconds', () => {
    expect(checkSession({ idleTimeout: '2d', notServedAfter: 500 }).settings).toEqual({ idleTimeoutMs: 172_800_000, notServedAfterMs: 500 })
  })

  it('a session’s heartbeat timeout is from ten seconds to five minutes', () => {
    expect(checkSession({ heartbeatTimeout: '1m' }).settings).toEqual({ heartbeatTimeoutMs: 60_000 })
    for (const heartbeatTimeout of ['9s', '6m', 0]) {
      expect(() => checkSession({ heartbeatTimeout })).toThrow(refusal('from 10 seconds to 5 minutes'))
    }
  })

  it.each<[string, object, string]>([
    ['an agent without a name', { agent: {} }, '`agent` must be an agent, or its name'],
    ['a name with a space', { agent: 'the support' }, '`agent` must be an agent, or its name, not "the support"'],
    [
      'a timeout of zero',
      { idleTimeout: 0 },
      "`idleTimeout` must be a number of milliseconds or a string such as '24h', above 0 and at most 24 days, not 0.",
    ],
    ['a timeout without a unit', { idleTimeout: '30' }, 'at most 24 days, not "30".'],
    ['a timeout that is too long', { notServedAfter: '25d' }, 'at most 24 days, not "25d".'],
    ['a misspelt name', { contxt: {} }, 'There is no option contxt: did you mean context?'],
  ])('a session is refused with %s', (_, options, message) => {
    expect(() => checkSession(options)).toThrow(refusal(message))
  })
})

it.each<[string, () => unknown, string]>([
  ['a message', () => checkSend({ messageID: 'm' }), 'There is no option messageID: did you mean messageId?'],
  ['a message', () => checkSend({ isNew: 'yes' }), '`isNew` must be true or false, not "yes".'],
  ['a message that interrupts', () => checkSend({ interrupt: 1 }), '`interrupt` must be true or false, not 1.'],
  [
    'a message',
    () => checkSend({ deadline: 0 }),
    "`deadline` must be a number of milliseconds or a string such as '5m', above 0 and at most 24 days, not 0.",
  ],
  ['a wait', () => checkWait({ timout: 5 }), 'There is no option timout: did you mean timeout?'],
  ['a wait', () => checkWait({ timeout: -1 }), '`timeout` must be a number of milliseconds'],
  ['a connection', () => checkConnect({ postgress: 'x' } as ConnectOptions), 'There is no option postgress: did you mean postgres?'],
  [
    'a connection',
    () => checkConnect({ temporal: { adress: 'x:1' } } as ConnectOptions),
    'There is no option temporal.adress: did you mean temporal.address?',
  ],
  [
    'a connection',
    () => checkConnect('x' as ConnectOptions),
    'The options must be an object such as { temporal: { address: \'127.0.0.1:7233\' } }, not "x".',
  ],
  [
    'a connection',
    () => checkConnect({ temporal: 'localhost:7233' } as never),
    '`temporal` must be an object such as { address: \'127.0.0.1:7233\' }, not "localhost:7233".',
  ],
  [
    'a connection',
    () => checkConnect({ address: 'localhost:7233' } as never),
    'There is no option address: did you mean temporal.address?',
  ],
  ['a connection', () => checkConnect({ postgres: 5432 } as never), '`postgres` must be a URL'],
])('%s is refused with an invalid option', (_, check, message) => {
  expect(check).toThrow(refusal(message))
})

it('a connection with an invalid option is refused before anything is connected', async () => {
  await expect(Pawl.connect({ taskQueue: '' })).rejects.toEqual(refusal('`taskQueue` must be a task queue\'s name, not "".'))
})
