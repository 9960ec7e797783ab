// Work that kills executors is kept away from other work.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { defined } from '../../../src/session/defined.ts'
import { type Crew, order, type Played, settled, startCrew, watched } from './support/crew.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Executors that are replaced when they die, as the parent does. */
async function teamOf(size: number, kept = Math.max(size, 2)) {
  const crew = startCrew({ size: kept })
  const members = new Map<number, Played>()
  let last = 0
  async function hire(): Promise<number> {
    members.set(++last, await crew.executor(last))
    return last
  }
  for (let n = 0; n < size; n++) await hire()

  const placed = (call: string) => crew.story.filter((line) => line.startsWith(`job ${call} on `)).length

  /** Where the call is, once its executor has accepted all its jobs. */
  async function runs(call: string): Promise<number> {
    const line = crew.story.findLast((one) => one.startsWith(`job ${call} on `))
    const id = Number(line?.split(' ').at(-1))
    const member = members.get(id)
    if (!member) throw new Error(`${call} runs nowhere: ${crew.story.join('; ')}`)
    for (const job of member.jobs()) await member.accept(job)
    return id
  }
  return {
    ...crew,
    runs,
    hire,
    placed,
    /** Gives the call to an executor when its turn has come. */
    async give(call: string, session = call, tool?: string): Promise<number> {
      const times = placed(call)
      watched(crew.pool.dispatch(order(call, { session, ...defined({ tool }) })))
      for (let waited = 0; placed(call) === times && waited < 20_000; waited += 5) await vi.advanceTimersByTimeAsync(waited && 5)
      return runs(call)
    },
    begin: (call: string, session = call, tool?: string) => begin(crew, call, session, tool),
    async die(id: number): Promise<void> {
      await members.get(id)?.die()
      members.delete(id)
    },
    /** Its call kills this many executors, each of which is replaced. */
    async kill(session: string, times: number, tool?: string): Promise<void> {
      for (let death = 0; death < times; death++) {
        await this.die(await this.give(session, session, tool))
        await hire()
      }
    },
    /** Its last job ends without entering a body. */
    async answer(id: number): Promise<void> {
      const member = members.get(id)
      await member?.answer(member.jobs().at(-1) ?? '', 'done')
    },
    async finish(id: number): Promise<void> {
      const member = members.get(id)
      const job = member?.jobs().at(-1) ?? ''
      await member?.say({ type: 'entered', job, timeoutMs: 60_000 })
      await member?.answer(job, 'done')
    },
  }
}

async function begin({ pool }: Crew, call: string, session: string, tool?: string) {
  const seen = watched(pool.dispatch(order(call, { session, ...defined({ tool }) })))
  await settled()
  return seen
}

/** A team in which the session `bad` has killed two executors. */
async function withSuspect(size: number, kept?: number) {
  const team = await teamOf(size, kept)
  await team.kill('bad', 2)
  return team
}

describe('a tool of a session that has killed two executors', () => {
  it('a tool that has killed two executors runs where nothing else does from then on, however often it kills', async () => {
    const team = await withSuspect(2)
    const early = [await team.give('a'), await team.give('b')]
    for (let death = 0; death < 3; death++) {
      const kept = await team.give('bad')
      expect(early).not.toContain(kept)
      const others = [await team.give(`a${death}`), await team.give(`b${death}`), await team.give(`c${death}`)]
      expect(others).not.toContain(kept)
      await team.die(kept)
      // Nothing is given to the successor either.
      await team.hire()
      expect(await team.give(`d${death}`)).toBe(others[0])
    }
  })

  it('a tool that has killed two executors waits for the replacement of the second, but not forever', async () => {
    const team = await withSuspect(2)
    await team.die(await team.give('bad'))
    const seen = await team.begin('bad', 'bad')
    await vi.advanceTimersByTimeAsync(9_000)
    expect(team.placed('bad')).toBe(3)
    await vi.advanceTimersByTimeAsync(2_000)
    expect(team.placed('bad')).toBe(4)
    expect(seen).toEqual({})
  })

  it('a tool of a session that has killed two executors runs alone: another suspect waits for it to end', async () => {
    const team = await withSuspect(3)
    await team.kill('worse', 2)
    const kept = await team.give('bad')
    await team.begin('worse', 'worse')
    const isPlaced = () => team.story.at(-1)?.startsWith('job worse')
    expect(isPlaced()).toBe(false)
    await team.finish(kept)
    expect(isPlaced()).toBe(true)
  })

  it('a tool that has killed two executors goes behind one with fewer deaths, which may be innocent', async () => {
    const team = await withSuspect(3)
    await team.kill('bad', 1)
    await team.kill('beside', 2)
    const kept = await team.give('first', 'bad')
    await team.begin('bad', 'bad')
    await team.begin('beside', 'beside')
    await team.die(kept)
    await team.hire()
    for (let waited = 0; team.placed('beside') < 3 && waited < 9_000; waited += 5) await vi.advanceTimersByTimeAsync(5)
    expect([team.placed('beside'), team.placed('bad')]).toEqual([3, 3])
  })

  it('a tool of a session that has killed two executors is called at ever longer intervals', async () => {
    const team = await withSuspect(2)
    const begun: number[] = []
    for (let death = 0; death < 7; death++) {
      const from = Date.now()
      const kept = await team.give('bad')
      begun.push(Date.now() - from)
      await team.die(kept)
      await team.hire()
    }
    expect(begun).toEqual([0, 125, 250, 500, 1_000, 2_000, 4_000])
  })

  it('a suspect’s long intervals apply only once it has died as a suspect itself', async () => {
    const team = await withSuspect(3)
    await team.kill('bad', 5)
    await team.kill('beside', 2)
    const from = Date.now()
    await team.give('beside')
    expect(Date.now() - from).toBe(0)
  })

  it('a tool of a session that has killed two executors is trusted again once it has ended without a death', async () => {
    const team = await withSuspect(2)
    const kept = await team.give('bad')
    await team.finish(kept)
    await vi.advanceTimersByTimeAsync(100_000)
    const [one, two] = [await team.give('a'), await team.give('b')]
    expect(new Set([one, two]).size).toBe(2)
    const again = await team.give('bad')
    // The least busy one, as for any other call: others join it.
    const more = [await team.give('c'), await team.give('d')]
    expect(more).toContain(again)
  })

  it('a tool of a session that has killed two executors runs at once if the worker has only one executor', async () => {
    const team = await withSuspect(1, 1)
    expect(await team.give('a')).toBe(3)
    expect(await team.give('bad')).toBe(3)
  })
})

describe('a suspect that was killed by chance', () => {
  it('a suspect that was killed by chance does not wait for the long intervals of one that kills whenever it runs', async () => {
    const team = await withSuspect(3)
    await team.kill('bad', 9)
    await team.kill('unlucky', 3)
    const from = Date.now()
    await team.give('unlucky')
    expect(Date.now() - from).toBeLessThanOrEqual(125)
  })
})

describe('a suspect that has waited long', () => {
  it.each([2, 3])('a suspect joins a running one after a second, but no other work (%i deaths)', async (deaths) => {
    const team = await withSuspect(3)
    await team.kill('worse', deaths)
    await vi.advanceTimersByTimeAsync(1_000)
    const kept = await team.give('bad')
    const others = [await team.give('a'), await team.give('b')]
    await team.begin('worse', 'worse')
    await vi.advanceTimersByTimeAsync(900)
    expect(team.placed('worse')).toBe(deaths)
    await vi.advanceTimersByTimeAsync(200)
    expect(team.story.at(-1)).toBe(`job worse on ${kept}`)
    expect(others).not.toContain(kept)
  })

  it.each([
    ['its next death could be the last', { bad: 2, worse: 4 }],
    ['that one has died three times', { bad: 3, worse: 2 }],
  ])('a suspect joins a running one only after ten seconds if %s', async (_, deaths) => {
    const team = await teamOf(3)
    await team.kill('bad', deaths.bad)
    await team.kill('worse', deaths.worse)
    await vi.advanceTimersByTimeAsync(1_000)
    const kept = await team.give('bad')
    await team.begin('worse', 'worse')
    await vi.advanceTimersByTimeAsync(9_900)
    expect(team.placed('worse')).toBe(deaths.worse)
    await vi.advanceTimersByTimeAsync(200)
    expect(team.story.at(-1)).toBe(`job worse on ${kept}`)
  })

  it('a suspect stops waiting for a running one as soon as that one has died', async () => {
    const team = await teamOf(3)
    await team.kill('bad', 4)
    for (const session of ['one', 'two']) await team.kill(session, 2)
    await vi.advanceTimersByTimeAsync(1_000)
    const kept = await team.give('bad')
    for (const session of ['one', 'two']) await team.begin(session, session)
    await vi.advanceTimersByTimeAsync(2_000)
    await team.die(kept)
    expect([team.placed('one'), team.placed('two')]).toEqual([2, 2])
    await team.hire()
    await settled()
    expect([team.placed('one'), team.placed('two')]).toEqual([3, 3])
  })

  it('a suspect causes at most a third death of a healthy call that runs for seconds', async () => {
    const team = await teamOf(1)
    const beginBoth = async () => {
      for (const call of ['healthy', 'bad']) await team.begin(call)
    }
    const die = async () => team.die(await team.runs('bad'))
    for (let shared = 0; shared < 2; shared++) {
      await beginBoth()
      await die()
      await team.hire()
    }
    await team.hire()
    await beginBoth()
    expect([team.placed('healthy'), team.placed('bad')]).toEqual([3, 2])
    await vi.advanceTimersByTimeAsync(1_000)
    expect(team.placed('bad')).toBe(3)
    await die()
    await team.hire()
    await beginBoth()
    await vi.advanceTimersByTimeAsync(9_000)
    expect([team.placed('healthy'), team.placed('bad')]).toEqual([4, 3])
    await team.finish(await team.runs('healthy'))
    expect([team.placed('healthy'), team.placed('bad')]).toEqual([4, 4])
  })

  it('suspects that have waited long enough enter together', async () => {
    const team = await withSuspect(3)
    for (const session of ['one', 'two', 'three']) await team.kill(session, 3)
    await team.kill('bad', 1)
    await team.give('bad')
    const before = team.story.length
    for (const session of ['one', 'two', 'three']) await team.begin(session, session)
    await vi.advanceTimersByTimeAsync(9_900)
    expect(team.story.length).toBe(before)
    await vi.advanceTimersByTimeAsync(200)
    const entered = team.story.slice(before)
    expect(entered.map((line) => line.replace(/ on .*/, ''))).toEqual(['job one', 'job two', 'job three'])
    expect(new Set(entered.map((line) => line.split(' on ')[1])).size).toBe(1)
  })

  it('a suspect waits for the replacement of an executor that another suspect has just killed', async () => {
    const team = await withSuspect(3)
    await team.kill('worse', 2)
    const kept = await team.give('bad')
    await team.begin('worse', 'worse')
    await vi.advanceTimersByTimeAsync(900)
    await team.die(kept)
    await vi.advanceTimersByTimeAsync(400)
    expect(team.placed('worse')).toBe(2)
    const successor = await team.hire()
    await settled()
    expect(team.story.at(-1)).toBe(`job worse on ${successor}`)
  })
})

describe('a healthy call, while an executor is kept for suspects', () => {
  /** A suspect runs on `kept`, which is the only executor. */
  async function withSuspectAlone() {
    const team = await withSuspect(2)
    const kept = await team.give('bad')
    const other = await team.give('a')
    await team.finish(other)
    await team.die(other)
    return { team, kept }
  }

  it('while an executor is kept for suspects, a healthy call waits for the replacement of the only other one', async () => {
    const { team, kept } = await withSuspectAlone()
    await team.begin('b')
    await vi.advanceTimersByTimeAsync(5_000)
    expect(team.placed('b')).toBe(0)
    const successor = await team.hire()
    await settled()
    expect(team.story.at(-1)).toBe(`job b on ${successor}`)
    expect(successor).not.toBe(kept)
  })

  it('a healthy call does not wait forever for a suspect on the only executor: its worker cannot begin it', async () => {
    const { team } = await withSuspectAlone()
    const seen = await team.begin('b')
    await vi.advanceTimersByTimeAsync(12_000)
    expect(seen).toEqual({ outcome: 'no executor' })
    expect(team.placed('b')).toBe(0)
  })

  it('a healthy call gets the executor that is kept for suspects if no suspect runs there and no other one responds', async () => {
    const { team, kept } = await withSuspectAlone()
    await team.finish(kept)
    expect(await team.give('b')).toBe(kept)
    const successor = await team.hire()
    expect(await team.give('c')).toBe(kept)
    await team.kill('worse', 2)
    expect(await team.give('worse')).not.toBe(kept)
    expect(successor).not.toBe(kept)
  })

  it('while an executor is kept for suspects, a healthy call stops waiting when it is stopped', async () => {
    const { team } = await withSuspectAlone()
    const seen = await team.begin('b')
    team.leases.get('b')?.stop('cancelled')
    await settled()
    expect(seen.error).toMatchObject({ name: 'CancelledFailure' })
  })

  it('a healthy call waits for a frozen executor, and leaves it as soon as no suspect runs on the other', async () => {
    const team = await withSuspect(2)
    const kept = await team.give('bad')
    await team.begin('b')
    const frozen = team.story.at(-1)
    expect(frozen).not.toBe(`job b on ${kept}`)
    await vi.advanceTimersByTimeAsync(9_000)
    expect(team.story.at(-1)).toBe(frozen)
    await team.finish(kept)
    await vi.advanceTimersByTimeAsync(500)
    expect(team.story.at(-1)).toBe(`job b on ${kept}`)
  })
})

describe('a suspect without an executor of its own', () => {
  it('a suspect without an executor of its own waits for the end of a healthy call if the successor is late', async () => {
    const team = await withSuspect(2)
    const busy = await team.give('a')
    await team.die(await team.give('bad'))
    await team.begin('bad')
    await vi.advanceTimersByTimeAsync(15_000)
    expect(team.placed('bad')).toBe(3)
    await team.finish(busy)
    expect(team.story.at(-1)).toBe(`job bad on ${busy}`)
  })

  it('a suspect does not wait forever for a call that occupies the only executor: its worker cannot begin it', async () => {
    const team = await withSuspect(2)
    await team.give('a')
    await team.die(await team.give('bad'))
    const seen = await team.begin('bad')
    await vi.advanceTimersByTimeAsync(25_000)
    expect(seen).toEqual({ outcome: 'no executor' })
  })

  it('a suspect without an executor of its own waits until the least busy one is empty', async () => {
    const team = await withSuspect(2)
    await vi.advanceTimersByTimeAsync(100_000)
    const [one, two] = [await team.give('a'), await team.give('b')]
    expect(one).not.toBe(two)
    await team.give('c')
    const busier = await team.runs('c')
    const emptying = busier === one ? two : one
    await team.begin('bad')
    expect(team.placed('bad')).toBe(2)
    expect([await team.give('d'), await team.give('e'), await team.give('f')]).toEqual([busier, busier, busier])
    await team.finish(emptying)
    expect(team.story.at(-1)).toBe(`job bad on ${emptying}`)
  })

  it('a suspect without an executor of its own stays a suspect if its job ends before its body is entered', async () => {
    const team = await withSuspect(2)
    const kept = await team.give('bad')
    await team.answer(kept)
    await vi.advanceTimersByTimeAsync(100_000)
    const again = await team.give('bad')
    expect([await team.give('a'), await team.give('b'), await team.give('c')]).not.toContain(again)
  })

  it('a suspect without an executor of its own keeps its executor for as long as it runs', async () => {
    const team = await withSuspect(2)
    const kept = await team.give('bad')
    await vi.advanceTimersByTimeAsync(100_000)
    expect([await team.give('a'), await team.give('b'), await team.give('c')]).not.toContain(kept)
  })
})

describe('a tool that kills in one session after another', () => {
  it('a tool that kills in one session after another is a suspect in all sessions', async () => {
    const team = await teamOf(3)
    for (const session of ['one', 'two']) await team.kill(session, 1, 'explode')
    const others = [await team.give('a'), await team.give('b'), await team.give('c')]
    const kept = await team.give('three', 'three', 'explode')
    expect(others).not.toContain(kept)
    expect(await team.give('d')).not.toBe(kept)
    // Another tool of the same session is not a suspect.
    expect(await team.give('e', 'three', 'harmless')).not.toBe(kept)
  })

  it('a tool that kills executors in several sessions is not suspect in others if one session was involved each time', async () => {
    const team = await teamOf(1)
    for (const beside of ['one', 'two']) {
      await team.give('bad', 'bad', 'explode')
      await team.die(await team.give(beside, beside, 'explode'))
      await team.hire()
    }
    await team.hire()
    const other = await team.give('three', 'three', 'explode')
    expect(await team.give('bad', 'bad', 'explode')).not.toBe(other)
  })

  it('a tool that kills in one session after another is trusted in all sessions once it has ended well in one', async () => {
    const team = await teamOf(3)
    for (const session of ['one', 'two']) await team.kill(session, 1, 'explode')
    const kept = await team.give('three', 'three', 'explode')
    for (const session of ['four', 'five']) await team.begin(session, session, 'explode')
    expect(team.placed('four') + team.placed('five')).toBe(0)
    await team.finish(kept)
    await settled()
    expect(team.placed('four') + team.placed('five')).toBe(2)
  })
})

describe('a call whose executor was killed by another one', () => {
  it('a call whose executor was killed by another one is not a suspect after one death', async () => {
    const team = await teamOf(2)
    const [bad, innocent, third] = [await team.give('bad'), await team.give('x'), await team.give('innocent')]
    expect([bad, innocent]).toContain(third)
    await team.die(third)
    await team.hire()
    expect(await team.give('innocent')).toBeGreaterThan(0)
    // Other work is put beside it.
    const others = [await team.give('a'), await team.give('b'), await team.give('c')]
    expect(new Set(others).size).toBe(2)
  })
})
