// An answer in the terminal while it streams: whatever its pieces, its rows are those of the whole answer.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { liveAnswer } from '../../src/cli/chat/live-answer.ts'

const words = fc
  .array(fc.constantFrom('a', 'word', 'and-a-word-that-is-longer-than-a-row', '\n', '雪', 'é'), { maxLength: 40 })
  .map((all) => all.join(' '))

/** The rows of an answer that is shown in pieces of these sizes. */
function rowsOf(text: string, sizes: readonly number[]): string[] {
  const answer = liveAnswer('bot › ', () => 24)
  const rows: string[] = []
  let at = 0
  for (const size of sizes) {
    rows.push(...answer.add(text.slice(at, at + size)).rows)
    at = Math.min(text.length, at + size)
  }
  return [...rows, ...(answer.complete(text) ?? ['nothing was said'])]
}

describe('an answer that is streaming', () => {
  it('a streaming answer has the same rows for any division into pieces, and loses no word', () => {
    fc.assert(
      fc.property(words.filter(Boolean), fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 30 }), (text, sizes) => {
        const rows = rowsOf(text, sizes)
        expect(rows).toEqual(rowsOf(text, [text.length]))
        expect(rows.join('').replace(/\s/g, '')).toBe(`bot › ${text}`.replace(/\s/g, ''))
        for (const row of rows) expect(row.length).toBeLessThan(24)
      }),
    )
  })

  it('a streaming answer that turns out to be a different one is shown whole', () => {
    const answer = liveAnswer('bot › ', () => 80)
    answer.add('I think')
    expect(answer.complete('Let me see')).toBeUndefined()
    expect(liveAnswer('bot › ', () => 80).complete('said at once')).toBeUndefined()
  })

  it('a streaming answer that breaks off reports whether any of its rows are permanent', () => {
    const answer = liveAnswer('bot › ', () => 80)
    answer.add('a row that still grows')
    expect(answer.reset()).toBe(false)
    answer.add('a row\nand another one')
    expect(answer.reset()).toBe(true)
    expect(answer.add('again').growing).toBe('bot › again')
  })
})
