// Which ids a session may have, and what its workflow is called.
import { describe, expect, it } from 'vitest'
import { isSessionId, sessionIdOf, workflowIdOf } from '../../../src/session/protocol/protocol.ts'

describe('a session id', () => {
  it.each(['a', 'customer-42', 'A.b_c:d/e@f', 'x'.repeat(200)])('a session id may be %s', (id) => {
    expect(isSessionId(id)).toBe(true)
    expect(sessionIdOf(workflowIdOf(id))).toBe(id)
  })

  it.each(['', 'x'.repeat(201), 'with space', 'ümlaut', 'a\nb', 'a\n', 7, null, undefined])('a session id may not be %j', (id) => {
    expect(isSessionId(id)).toBe(false)
  })
})
