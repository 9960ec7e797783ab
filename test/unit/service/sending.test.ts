// Large responses: their memory counts until they have been sent.
import { describe, expect, it } from 'vitest'
import { sentInPieces } from '../../../src/service/sending.ts'
import { until } from '../../support/until.ts'

const TEXT = JSON.stringify({ text: 'äx'.repeat(500_000) })

function sending(stalledAfterMs = 60_000) {
  const seen = { ended: 0 }
  const client = new AbortController()
  return { seen, client, options: { onEnd: () => void (seen.ended += 1), stalledAfterMs, signal: client.signal } }
}

const large = (): Response => new Response(TEXT, { status: 200, headers: { 'content-type': 'application/json' } })

describe('a large response', () => {
  it('a large response is sent unchanged, and counts until it is read', async () => {
    const { seen, options } = sending()
    const response = await sentInPieces(large(), options)
    expect(response.headers.get('content-length')).toBe(String(Buffer.byteLength(TEXT)))
    expect(response.headers.get('content-type')).toBe('application/json')
    expect(seen.ended).toBe(0)
    expect(await response.text()).toBe(TEXT)
    expect(seen.ended).toBe(1)
  })

  it.each([
    ['its client stops reading', 30, async (response: Response) => void (await response.body?.getReader().read())],
    ['its client cancels it', 60_000, async (response: Response) => response.body?.cancel()],
    ['its client disconnects', 60_000, async (_: Response, client: AbortController) => client.abort()],
  ] as const)('a large response no longer counts once %s', async (_, stalledAfterMs, act) => {
    const { seen, client, options } = sending(stalledAfterMs)
    const response = await sentInPieces(large(), options)
    await act(response, client)
    await until('it has ended', () => seen.ended === 1)
  })
})

it('a large response whose client has disconnected before it was ready does not count', async () => {
  const { seen, client, options } = sending()
  client.abort()
  await sentInPieces(large(), options)
  expect(seen.ended).toBe(1)
})

describe('other responses', () => {
  it.each([
    ['small', new Response('{"a":1}', { status: 202, headers: { location: '/x' } })],
    ['without a body', new Response(null, { status: 204 })],
    ['an event stream', new Response(TEXT, { headers: { 'content-type': 'text/event-stream' } })],
  ])('other responses do not count while they are sent: %s', async (_, response) => {
    const { seen, options } = sending()
    const { status } = response
    const sent = await sentInPieces(response, options)
    expect(seen.ended).toBe(1)
    expect([sent.status, sent.headers.get('location')]).toEqual([status, response.headers.get('location')])
    await sent.text()
  })
})
