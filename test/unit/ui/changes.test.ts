// Which events a page that follows is told of: all that change what is recorded of the conversation.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { changesChat } from '../../../src/ui/changes.ts'
import { uiMessagesOf } from '../../../src/ui/messages.ts'
import { seed } from '../../support/sizes.ts'
import { eventfulSessions, soundSessions } from '../session/sound-session.ts'

it('the events that change a chat are all that change the messages of a random session', () => {
  let silent = 0
  fc.assert(
    fc.property(fc.oneof(soundSessions, eventfulSessions), ({ events }) => {
      let before = '[]'
      for (const [n, event] of events.entries()) {
        const messages = JSON.stringify(uiMessagesOf(events.slice(0, n + 1)))
        if (messages !== before) expect(changesChat(event), event.type).toBe(true)
        if (!changesChat(event)) silent += 1
        before = messages
      }
    }),
    { numRuns: 8, seed, endOnFailure: true },
  )
  expect(silent).toBeGreaterThan(0)
})
