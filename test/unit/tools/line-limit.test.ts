// The limit of an answer over stdio: whatever the chunks, lines within it arrive as they are, and a longer answer becomes an error of its request.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { limitLines, TOO_LARGE } from '../../../src/tools/mcp/line-limit.ts'

const MAX = 300
const HUGE = 'x'.repeat(1_000)

/** What is passed on of a text that arrives in chunks of these sizes; undefined: the connection ends. */
function passedOn(text: string, sizes: readonly number[] = [64], maxDropped?: number): string | undefined {
  const limit = limitLines(MAX, maxDropped)
  const bytes = Buffer.from(text)
  const passed: Buffer[] = []
  for (let from = 0, index = 0; from < bytes.length; index++) {
    const to = from + (sizes[index % sizes.length] ?? 1)
    const more = limit(bytes.subarray(from, to))
    if (!more) return undefined
    passed.push(...more)
    from = to
  }
  return Buffer.concat(passed).toString()
}

const idsOf = (passed: string | undefined): unknown =>
  passed
    ?.split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
    .map(({ id, error }) => [id, error?.code])

describe('the limit of an answer over stdio', () => {
  const line = fc.oneof(
    fc.string({ maxLength: 40, unit: 'grapheme' }).map((text) => ({ line: JSON.stringify({ text }), isHuge: false })),
    fc.nat(99).map((id) => ({ line: JSON.stringify({ result: HUGE, jsonrpc: '2.0', id }), isHuge: true })),
  )

  it('passes short lines on as they are, and one error for each long answer, however the output is cut into chunks', () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 2_000 }), { minLength: 1, maxLength: 5 })
    fc.assert(
      fc.property(fc.array(line), sizes, (lines, cuts) => {
        const passed = passedOn(lines.map((one) => `${one.line}\n`).join(''), cuts) ?? expect.fail('the connection ended')
        const expected = lines.map((one) => (one.isHuge ? [JSON.parse(one.line).id, TOO_LARGE] : one.line))
        const seen = passed.split('\n').slice(0, -1)
        expect(seen.map((text, at) => (lines[at]?.isHuge ? [JSON.parse(text).id, JSON.parse(text).error.code] : text))).toEqual(expected)
      }),
    )
  })

  it.each([
    ['first', `{"jsonrpc":"2.0","id":7,"result":"${HUGE}"}`],
    ['first, with spaces', `{ "jsonrpc": "2.0", "id": 7, "result": "${HUGE}" }`],
    ['first, without a version before it', `{"id":7,"jsonrpc":"2.0","error":{"message":"${HUGE}"}}`],
    ['last', `{"result":"${HUGE}","jsonrpc":"2.0","id":7}`],
    ['last, with spaces', `{"result": "${HUGE}", "jsonrpc": "2.0", "id": 7 }\r`],
    ['last but one', `{"jsonrpc":"2.0","result":"${HUGE}","id":7}`],
  ])('fails the request that a long answer belongs to, if its id is %s', (_, text) => {
    expect(idsOf(passedOn(`${text}\n`))).toEqual([[7, TOO_LARGE]])
  })

  it('fails the request before the answer has ended, if its id comes first', () => {
    expect(idsOf(passedOn(`{"jsonrpc":"2.0","id":7,"result":"${HUGE}`))).toEqual([[7, TOO_LARGE]])
  })

  it.each([
    ['a notification', `{"jsonrpc":"2.0","method":"notifications/message","params":"${HUGE}"}`],
    ['a request of the server', `{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":"${HUGE}"}`],
    ['a request of the server with its id last', `{"method":"roots/list","params":"${HUGE}","jsonrpc":"2.0","id":7}`],
    ['no JSON', HUGE],
  ])('drops a long line that is no answer: %s', (_, text) => {
    expect(passedOn(`${text}\nshort\n`)).toBe('short\n')
  })

  it.each([
    ['after its result', `{"result":"${HUGE}","jsonrpc":"2.0","id":7,"more":1}\n`],
    ['within its result only', `{"jsonrpc":"2.0","result":{"text":"${HUGE}","id":7}}\n`],
  ])('ends the connection if the id of a long answer is not where servers write it: %s', (_, text) => {
    expect(passedOn(text)).toBeUndefined()
  })

  it('ends the connection if a line goes on for ever', () => {
    expect(passedOn('x'.repeat(5_000), [64], 4_000)).toBeUndefined()
  })
})
