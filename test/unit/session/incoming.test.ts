// What a session accepts as a message, and why it refuses anything else.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAX_DEPTH } from '../../../src/session/json.ts'
import { checkMessage, MAX_MESSAGE_BYTES } from '../../../src/session/protocol/incoming.ts'
import { Undecodable } from '../../../src/session/protocol/undecodable.ts'

const PIXEL = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } }

/** A value `depth` levels deep. */
function nested(depth: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < depth; level++) value = [value]
  return value
}

function codeOf(raw: unknown): string {
  const checked = checkMessage(raw)
  return 'refusal' in checked ? checked.refusal.code : 'accepted'
}

describe('a message', () => {
  it.each<[string, unknown]>([
    ['text', { content: 'hello' }],
    ['text with an id', { messageId: 'm', content: 'hello' }],
    ['a request to interrupt', { content: 'hello', interrupt: true }],
    ['a sender', { content: 'hello', by: 'ann' }],
    ['an id of 200 characters', { messageId: 'm'.repeat(200), content: 'hello' }],
    ['blocks', { content: [{ type: 'text', text: 'look' }, PIXEL] }],
    ['an image alone', { content: [PIXEL] }],
    ['an image by URL', { content: [{ type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }] }],
    ['NUL and half a character', { content: 'a\u0000b\ud800' }],
    ['the maximum size', { content: 'x'.repeat(MAX_MESSAGE_BYTES - 2) }],
  ])('a message with %s is accepted unchanged', (_, raw) => {
    expect(checkMessage(raw)).toEqual({ message: raw })
  })

  it('a message names the agent and the context of the session if it opens one', () => {
    expect(checkMessage({ content: 'hi', agent: 'support', context: { tenant: 1 }, metadata: { a: [1] }, other: 1 })).toEqual({
      message: { content: 'hi', agent: 'support', context: { tenant: 1 }, metadata: { a: [1] } },
    })
  })

  it('a message names its sender in a bounded text, and is accepted without a name that is not a text', () => {
    expect(checkMessage({ content: 'hi', by: 7 })).toEqual({ message: { content: 'hi' } })
    expect(checkMessage({ content: 'hi', by: 'x'.repeat(2_000) })).toMatchObject({ message: { by: expect.stringMatching(/^x{900,}…$/) } })
  })

  it.each<[string, unknown, string]>([
    ['nothing', undefined, 'invalid_message'],
    ['null', null, 'invalid_message'],
    ['a string', 'hello', 'invalid_message'],
    ['a list', [{ content: 'hello' }], 'invalid_message'],
    ['bytes', new Uint8Array(3), 'invalid_message'],
    ['what cannot be decoded', new Undecodable('broken JSON'), 'undecodable'],
    ['what is nested too deep', { content: 'hi', context: nested(MAX_DEPTH + 1) }, 'undecodable'],
    ['no content', {}, 'invalid_message'],
    ['a number as content', { content: 7 }, 'invalid_message'],
    ['no text', { content: '' }, 'empty_message'],
    ['blank text', { content: ' \n\t' }, 'empty_message'],
    ['no blocks', { content: [] }, 'empty_message'],
    ['blank blocks', { content: [{ type: 'text', text: ' ' }] }, 'empty_message'],
    ['a block of another kind', { content: [{ type: 'tool_result', tool_use_id: 't', content: 'x' }] }, 'invalid_message'],
    ['null among the blocks', { content: [null] }, 'invalid_message'],
    ['a text block without text', { content: [{ type: 'text', text: 7 }] }, 'invalid_message'],
    ['an image without source', { content: [{ type: 'image' }] }, 'invalid_message'],
    ['an image with an empty source', { content: [{ type: 'image', source: {} }] }, 'invalid_message'],
    [
      'an image of a kind that no model knows',
      { content: [{ type: 'image', source: { ...PIXEL.source, media_type: 'image/svg+xml' } }] },
      'invalid_message',
    ],
    [
      'an image that is not base64',
      { content: [{ type: 'image', source: { ...PIXEL.source, data: 'data:image/png;base64,iVBO' } }] },
      'invalid_message',
    ],
    [
      'an image whose bytes are something else',
      { content: [{ type: 'image', source: { ...PIXEL.source, data: 'PGh0bWw+' } }] },
      'invalid_message',
    ],
    ['an image that was cut', { content: [{ type: 'image', source: { ...PIXEL.source, data: 'iVBORw0KGgoA=' } }] }, 'invalid_message'],
    ['an image by an invalid URL', { content: [{ type: 'image', source: { type: 'url', url: 'https://[' } }] }, 'invalid_message'],
    ['an image from a file', { content: [{ type: 'image', source: { type: 'url', url: 'file:///etc/passwd' } }] }, 'invalid_message'],
    ['one byte too much', { content: 'x'.repeat(MAX_MESSAGE_BYTES - 1) }, 'message_too_large'],
    ['too many bytes in few characters', { content: '€'.repeat(MAX_MESSAGE_BYTES / 3) }, 'message_too_large'],
    ['an empty id', { messageId: '', content: 'hi' }, 'invalid_message_id'],
    ['a numeric id', { messageId: 7, content: 'hi' }, 'invalid_message_id'],
    ['a long id', { messageId: 'm'.repeat(201), content: 'hi' }, 'invalid_message_id'],
    ['a list as metadata', { content: 'hi', metadata: [] }, 'invalid_metadata'],
    ['a deadline as text', { content: 'hi', deadlineMs: '5m' }, 'invalid_deadline'],
    ['a deadline of zero', { content: 'hi', deadlineMs: 0 }, 'invalid_deadline'],
    ['a deadline of half a millisecond', { content: 'hi', deadlineMs: 0.5 }, 'invalid_deadline'],
    ['a deadline beyond any timer', { content: 'hi', deadlineMs: 2 ** 31 }, 'invalid_deadline'],
    ['large metadata', { content: 'hi', metadata: { text: 'x'.repeat(16_000) } }, 'invalid_metadata'],
  ])('a message is refused: %s', (_, raw, code) => {
    expect(codeOf(raw)).toBe(code)
  })

  it('a message is refused under its id, if it has a valid one', () => {
    expect(checkMessage({ messageId: 'm1', content: '' })).toMatchObject({ messageId: 'm1', refusal: { code: 'empty_message' } })
    expect(checkMessage({ messageId: '', content: '' })).not.toHaveProperty('messageId')
  })

  it('no message makes the check throw', () => {
    const raw = fc.oneof(
      fc.anything(),
      fc.record(
        {
          messageId: fc.anything(),
          content: fc.anything(),
          metadata: fc.jsonValue(),
          deadlineMs: fc.anything(),
          traceparent: fc.anything(),
        },
        { requiredKeys: [] },
      ),
    )
    fc.assert(
      fc.property(raw, (value) => {
        const json: unknown = JSON.parse(
          JSON.stringify(value, (_, one: unknown) => (typeof one === 'bigint' ? String(one) : one)) ?? 'null',
        )
        const checked = checkMessage(json)
        if ('refusal' in checked) expect(checked.refusal.reason).not.toBe('')
        // An accepted message is accepted again: the client and the workflow both check it, with the same result.
        else expect(checkMessage(checked.message)).toEqual(checked)
      }),
    )
  })
})

describe('the span of a sender', () => {
  const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

  it('the span of a sender travels with the message', () => {
    expect(checkMessage({ content: 'hi', traceparent: TRACEPARENT })).toEqual({ message: { content: 'hi', traceparent: TRACEPARENT } })
  })

  it('the span of a sender never causes a message to be refused: an invalid one is left out', () => {
    for (const traceparent of [
      null,
      7,
      '',
      {},
      `${TRACEPARENT}-more`,
      TRACEPARENT.toUpperCase(),
      `cc${TRACEPARENT.slice(2)}-${'x'.repeat(200)}`,
    ]) {
      expect(checkMessage({ content: 'hi', traceparent })).toEqual({ message: { content: 'hi' } })
    }
  })
})
