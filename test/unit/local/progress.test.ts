// What a person sees of slow work: one line on a terminal, separate lines elsewhere.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { printIfSlow, printTo } from '../../../src/local/progress.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function stream(isTTY: boolean) {
  const written: string[] = []
  return { isTTY, written, write: (text: string | Uint8Array) => written.push(String(text)) > 0 }
}

/** Work that takes this long and then ends like this. */
function takes<T>(ms: number, end: () => T): Promise<T> {
  return new Promise((resolve, reject) =>
    setTimeout(() => {
      try {
        resolve(end())
      } catch (error) {
        reject(error as Error)
      }
    }, ms),
  )
}

describe('work in progress', () => {
  it('work in progress is one line on a terminal, overwritten until it is done', async () => {
    const terminal = stream(true)
    const work = printIfSlow(
      printTo(terminal),
      'building',
      takes(8_000, () => 7),
    )
    await vi.advanceTimersByTimeAsync(8_000)
    expect(await work).toBe(7)
    const clear = '\r\u001B[2K'
    expect(terminal.written).toEqual([`${clear}building (2 s)`, `${clear}building (7 s)`, `${clear}building (8 s): done\n`])
  })

  it('without a terminal, work in progress is a new line each time, and also ends when it fails', async () => {
    const file = stream(false)
    const work = printIfSlow(
      printTo(file, (line) => `pawl: ${line}`),
      'building',
      takes(3_000, () => {
        throw new Error('no compiler')
      }),
    )
    const failed = work.catch((error: unknown) => error)
    await vi.advanceTimersByTimeAsync(3_000)
    expect(await failed).toMatchObject({ message: 'no compiler' })
    expect(file.written).toEqual(['pawl: building (2 s)\n', 'pawl: building (3 s): failed\n'])
  })

  it('work in progress is named after its current step', async () => {
    const file = stream(false)
    let what = 'downloading'
    setTimeout(() => (what = 'downloading and building'), 5_000)
    const work = printIfSlow(
      printTo(file),
      () => what,
      takes(8_000, () => (what = 'building')),
    )
    await vi.advanceTimersByTimeAsync(8_000)
    await work
    expect(file.written).toEqual(['downloading (2 s)\n', 'downloading and building (7 s)\n', 'building (8 s): done\n'])
  })

  it('work in progress is not mentioned if it takes less than two seconds', async () => {
    const terminal = stream(true)
    const work = printIfSlow(
      printTo(terminal),
      'starting',
      takes(1_900, () => 1),
    )
    await vi.advanceTimersByTimeAsync(1_900)
    await work
    expect(terminal.written).toEqual([])
  })
})
