// Several ways to one result: each gets a head start over the next, and the first that works ends the others.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { firstToWork, type Way } from '../../../src/local/first-to-work.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Records when each way starts and how it ends, in milliseconds since the test began. */
function recorder() {
  const begun = Date.now()
  const seen: string[] = []
  const note = (what: string) => seen.push(`${Date.now() - begun} ${what}`)
  /** A way that ends after `ms`. If it is stopped earlier, it takes 100 ms to clean up. */
  function way(name: string, ms: number, end: 'works' | 'fails', headStartMs?: number): Way<string> {
    return {
      ...(headStartMs === undefined ? {} : { headStartMs }),
      run: (stop) => {
        note(`${name} starts`)
        return new Promise((resolve, reject) => {
          let ended = false
          const timer = setTimeout(() => {
            ended = true
            note(`${name} ${end}`)
            if (end === 'works') resolve(name)
            else reject(new Error(`${name} failed`))
          }, ms)
          stop.addEventListener('abort', () => {
            if (ended) return
            clearTimeout(timer)
            setTimeout(() => {
              note(`${name} is cleaned up`)
              reject(new Error(`${name} was stopped`))
            }, 100)
          })
        })
      },
    }
  }
  return { seen, note, way }
}

async function settled(work: Promise<string>, note: (what: string) => void): Promise<void> {
  const end = work.then(
    (result) => note(`result: ${result}`),
    (error: AggregateError) => note(error.errors.map((each: Error) => each.message).join(', ')),
  )
  await vi.advanceTimersByTimeAsync(60_000)
  await end
}

describe('the first way to work', () => {
  it('the first way to work starts no other way if it works within its head start', async () => {
    const { seen, note, way } = recorder()
    await settled(firstToWork([way('a', 4_000, 'works', 5_000), way('b', 1, 'works')]), note)
    expect(seen).toEqual(['0 a starts', '4000 a works', '4000 result: a'])
  })

  it('the first way to work stops a slow way that started earlier, and waits until it has cleaned up', async () => {
    const { seen, note, way } = recorder()
    await settled(firstToWork([way('a', 50_000, 'works', 5_000), way('b', 2_000, 'works')]), note)
    expect(seen).toEqual(['0 a starts', '5000 b starts', '7000 b works', '7100 a is cleaned up', '7100 result: b'])
  })

  it('the first way to work may be the one that started first', async () => {
    const { seen, note, way } = recorder()
    await settled(firstToWork([way('a', 8_000, 'works', 5_000), way('b', 50_000, 'works'), way('c', 1, 'works')]), note)
    expect(seen).toEqual(['0 a starts', '5000 b starts', '8000 a works', '8100 b is cleaned up', '8100 result: a'])
  })

  it('the first way to work starts the next way at once after a failure, and waits for a slow one after the last', async () => {
    const { seen, note, way } = recorder()
    await settled(firstToWork([way('a', 1_000, 'fails', 5_000), way('b', 9_000, 'works', 2_000), way('c', 500, 'fails')]), note)
    expect(seen).toEqual([
      '0 a starts',
      '1000 a fails',
      '1000 b starts',
      '3000 c starts',
      '3500 c fails',
      '10000 b works',
      '10000 result: b',
    ])
  })

  it('if no way works, the error has the reasons of all ways in order', async () => {
    const { seen, note, way } = recorder()
    await settled(firstToWork([way('a', 9_000, 'fails', 5_000), way('b', 1_000, 'fails'), way('c', 1_000, 'fails')]), note)
    expect(seen.at(-1)).toBe('9000 a failed, b failed, c failed')
  })

  it('without any way to try, there is an error', async () => {
    await expect(firstToWork([])).rejects.toThrow(AggregateError)
  })
})
