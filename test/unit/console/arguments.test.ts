// What an approver sees of changed arguments is all that differs, and no more.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type ArgumentChange, changesOf } from '../../../console/src/session/argument-changes.ts'
import { size } from '../../support/sizes.ts'

/** Makes the changes to a copy of the value, from the last one, so that list items keep their numbers. */
function changed(value: unknown, changes: readonly ArgumentChange[]): unknown {
  const root = { '': structuredClone(value) } as Record<string, unknown>
  for (const change of changes.toReversed()) {
    const names = change.path.split('/').map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'))
    const last = names.pop() ?? ''
    const holder = names.reduce<Record<string, unknown>>((at, name) => at[name] as Record<string, unknown>, root)
    if ('after' in change)
      Object.defineProperty(holder, last, { value: change.after, configurable: true, enumerable: true, writable: true })
    else if (Array.isArray(holder)) holder.splice(Number(last), 1)
    else delete holder[last]
  }
  return root['']
}

/** Lists grow from their first new item on. */
const inOrder = (changes: readonly ArgumentChange[]): ArgumentChange[] => [
  ...changes.filter((change) => !('after' in change)),
  ...changes.filter((change) => 'after' in change && !('before' in change)).toReversed(),
  ...changes.filter((change) => 'after' in change && 'before' in change),
]

describe('changes of arguments', () => {
  it('changes of arguments name the smallest parts that differ, by JSON pointer', () => {
    const before = { to: 'ann', cents: 500, tags: ['a', 'b'], note: 'x' }
    const after = { to: 'ann', cents: 400, tags: ['a'], 'a/b': null }
    expect(changesOf(before, after)).toEqual([
      { path: '/cents', before: 500, after: 400 },
      { path: '/tags/1', before: 'b' },
      { path: '/note', before: 'x' },
      { path: '/a~1b', after: null },
    ])
    expect(changesOf({ a: 1 }, [1])).toEqual([{ path: '', before: { a: 1 }, after: [1] }])
  })

  it('changes of arguments turn the one value into the other, and equal values have none', () => {
    const json = fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.parse(JSON.stringify(value)) as unknown)
    fc.assert(
      fc.property(json, json, (before, after) => {
        expect(changesOf(before, structuredClone(before))).toEqual([])
        expect(changed(before, inOrder(changesOf(before, after)))).toEqual(after)
      }),
      { numRuns: size(300, 2_000) },
    )
  })
})
