// Decisions that the transport is asked to send again, as `useChat` does with `sendAutomaticallyWhen`.
import { expect, it } from 'vitest'
import { PawlChatTransport } from '../../../src/ui/transport.ts'

/** A transport whose server answers with these bodies, one after the other. */
function answering(...bodies: string[]) {
  let posts = 0
  const transport = new PawlChatTransport({ fetch: async () => new Response(bodies[posts++]) })
  const decide = async (state: string): Promise<void> => {
    const parts = [{ type: 'tool-pay', toolCallId: 't_1_1_0', state }]
    const message = { id: 'm_1_1', role: 'assistant', parts }
    const stream = await transport.sendMessages({ trigger: 'submit-message', chatId: 'c', messages: [message] })
    for await (const _ of stream);
  }
  return { decide, posts: () => posts }
}

const DONE = 'data: [DONE]\n\n'
const FAILED = `data: ${JSON.stringify({ type: 'error', errorText: 'Failed.', code: 'store_read_failed' })}\n\n`

it('decisions are not sent again if nothing has changed since: the page rests, as after an abort', async () => {
  const { decide, posts } = answering(DONE, DONE)
  await decide('approval-responded')
  await expect(decide('approval-responded')).rejects.toMatchObject({ name: 'AbortError' })
  expect(posts()).toBe(1)
  await decide('output-available')
  expect(posts()).toBe(2)
})

it('decisions are sent again after a stream that has failed', async () => {
  const { decide, posts } = answering(FAILED, DONE)
  await expect(decide('approval-responded')).rejects.toMatchObject({ code: 'store_read_failed' })
  await decide('approval-responded')
  expect(posts()).toBe(2)
})
