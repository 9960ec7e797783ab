// What a stream for a chat page leaves behind when it ends.
import { expect, it } from 'vitest'
import type { SessionHandle, TreeItem } from '../../../src/client/types.ts'
import type { SessionEvent } from '../../../src/session/events.ts'
import { uiEvents } from '../../../src/service/ui-stream.ts'
import { emptyOutline } from '../../../src/ui/outline.ts'
import { sessionStarted } from '../../support/session-started.ts'

const USAGE = { input_tokens: 1, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
const EVENTS = [
  sessionStarted(),
  { type: 'message_received', messageId: 'm1', content: 'hello' },
  { type: 'run_started', run: 1, messageId: 'm1' },
  { type: 'turn_started', run: 1, turn: 1, takes: ['m1'] },
  {
    ...{ type: 'model_completed', run: 1, turn: 1, attempt: 1, model: 'm', stopReason: 'end_turn', usage: USAGE },
    ...{ content: [{ type: 'text', text: 'hi' }], calls: [] },
  },
  { type: 'run_completed', run: 1, turns: 1, stopReason: 'end_turn', usage: USAGE },
].map((body, index) => ({ v: 1, seq: index + 1, at: index, ...body }) as SessionEvent)

it('a stream that has shown its answer ends its watch, although the watch has more to say', async () => {
  let watches = 0
  async function* watch(): AsyncGenerator<TreeItem> {
    watches += 1
    try {
      for (const event of EVENTS) yield { type: 'event', event, sessionId: 's' }
      yield { type: 'status', status: 'idle', sessionId: 's' }
      await new Promise(() => {})
    } finally {
      watches -= 1
    }
  }
  const session = { id: 's', watch } as unknown as SessionHandle
  const open = (): SessionHandle => session
  const past = { outline: emptyOutline(), stored: undefined }
  const texts: string[] = []
  for await (const text of uiEvents({ session, open, past, from: { message: 'm1', since: 0 }, show: 'steps' })(
    new AbortController().signal,
  ))
    texts.push(text)
  expect(texts.join('')).toContain('"delta":"hi"')
  expect(texts.at(-1)).toBe('data: [DONE]\n\n')
  await new Promise((resolve) => setImmediate(resolve))
  expect(watches).toBe(0)
})
