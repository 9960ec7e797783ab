// What `nodeListener` refuses before it returns a listener.
import { nodeListener } from 'pawl/service'
import { expect, it } from 'vitest'

const handler = async (): Promise<Response> => new Response()
const listenerWith = (options: unknown) => () => nodeListener(handler, options as object)

it.each<[string, () => unknown, string]>([
  ['a duration below 0', listenerWith({ stalledAfter: -1 }), "`stalledAfter` must be a number of milliseconds or text such as '90s'"],
  ['a unit in a name', listenerWith({ stalledAfterMs: 5 }), 'There is no option stalledAfterMs: did you mean stalledAfter?'],
  ['an unknown name', listenerWith({ foo: 2 }), 'There is no option foo: the options are stalledAfter, onRequest.'],
  ['a hook that is not a function', listenerWith({ onRequest: 'log' }), '`onRequest` must be a function, not "log".'],
  ['options that are not an object', listenerWith(5), 'The options must be an object, not 5.'],
  [
    'no handler',
    () => nodeListener(5 as never),
    'The first argument of nodeListener() must be a handler: pass the result of createHandler()',
  ],
])('a listener is refused with %s', (_, declare, message) => {
  const refusal = { name: 'InvalidOption', code: 'invalid_option', message: expect.stringContaining(message) }
  expect(declare).toThrow(expect.objectContaining(refusal))
})

it('a listener accepts a duration in either form, and no options at all', () => {
  expect(nodeListener(handler, { stalledAfter: '2m' })).toBeTypeOf('function')
  expect(nodeListener(handler, { stalledAfter: 200 })).toBeTypeOf('function')
  expect(nodeListener(handler)).toBeTypeOf('function')
})
