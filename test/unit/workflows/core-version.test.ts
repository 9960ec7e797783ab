// Which core an execution uses, as it will be once there is a second one: the decisions of an execution must not change midway.
import { describe, expect, it } from 'vitest'
import { coreVersionOf } from '../../../src/workflows/core-version.ts'

/** The SDK's `patched`: an execution that is beginning accepts what it is asked for, a replay only what its history is marked with. */
function sdk(markers: Set<string>, isReplay: boolean): (patch: string) => boolean {
  return (patch) => {
    if (!isReplay) markers.add(patch)
    return markers.has(patch)
  }
}

/** A release that knows cores up to `newest` begins or replays an execution. */
const begin = (markers: Set<string>, newest: number) => coreVersionOf(undefined, sdk(markers, false), newest)
const replay = (markers: Set<string>, newest: number) => coreVersionOf(undefined, sdk(markers, true), newest)

describe('the core of an execution', () => {
  it('a new execution begins with the newest core', () => {
    expect([1, 2, 3].map((newest) => begin(new Set(), newest))).toEqual([1, 2, 3])
  })

  it.each([1, 2])('the core of an execution stays version %i when newer releases replay it', (began) => {
    const markers = new Set<string>()
    begin(markers, began)
    expect([3, 2, 1].filter((newest) => newest >= began).map((newest) => replay(markers, newest))).toEqual(Array(4 - began).fill(began))
  })

  it('the core of an execution is the one that its predecessor chose for it when it continued as new', () => {
    expect(coreVersionOf({ coreVersion: 1 }, sdk(new Set(['core-2']), true), 2)).toBe(1)
    expect(coreVersionOf({ coreVersion: 2 }, sdk(new Set(), false), 3)).toBe(2)
  })

  it('the core of an execution is left to a worker that knows it', () => {
    expect(() => coreVersionOf({ coreVersion: 2 }, sdk(new Set(), false), 1)).toThrow(
      'this worker knows core 1, but the session needs core 2',
    )
  })
})
