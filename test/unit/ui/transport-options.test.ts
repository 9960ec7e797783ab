// What the chat transport refuses when it is created.
import { expect, it } from 'vitest'
import type { PawlChatTransportOptions } from '../../../src/ui/transport-options.ts'
import { PawlChatTransport } from '../../../src/ui/transport.ts'

it.each<[string, unknown, string]>([
  ['an unknown name', { agnet: 'support' }, 'There is no option agnet: the options are api, agent, '],
  ['a mode that there is not', { show: 'everything' }, "`show` must be 'pieces' or 'steps', not \"everything\"."],
  ['a number for a path', { api: 5 }, '`api` must be a path or a URL, not 5.'],
  ['an agent itself', { agent: { name: 'support' } }, '`agent` must be the name of an agent, not of type object.'],
  ['text for tags', { tags: 'vip' }, '`tags` must be a list of strings, not "vip".'],
  ['text for headers', { headers: 'x-key: 1' }, '`headers` must be an object, or a function that returns one, not "x-key: 1".'],
  [
    'credentials that fetch does not know',
    { credentials: 'all' },
    "`credentials` must be 'omit', 'same-origin' or 'include', not \"all\".",
  ],
  ['a URL for fetch', { fetch: '/api' }, '`fetch` must be a function, not "/api".'],
  ['a stop that there is not', { onStop: 'pause' }, "`onStop` must be 'interrupt' or 'leave', not \"pause\"."],
  ['options that are not an object', '/api/pawl', 'The options must be an object, not "/api/pawl".'],
  ['null', null, 'The options must be an object, not null.'],
])('a transport is refused with %s', (_, options, message) => {
  const refusal = { name: 'InvalidOptionError', code: 'invalid_option', message: expect.stringContaining(message) }
  expect(() => new PawlChatTransport(options as PawlChatTransportOptions)).toThrow(expect.objectContaining(refusal))
})

it('a transport accepts all of its options, and members that are undefined', () => {
  const headers = () => ({ 'x-key': '1' })
  expect(
    () => new PawlChatTransport({ api: '', agent: 'a', context: 1, tags: [], headers, fetch, show: 'steps', onStop: 'leave' }),
  ).not.toThrow()
  expect(() => new PawlChatTransport({ api: undefined, credentials: undefined } as object)).not.toThrow()
  expect(() => new PawlChatTransport()).not.toThrow()
})
