// A process is killed while it checks a run's output: the model is not asked again, and the answer counts once, whether it matches or not.
import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SettledRun, SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsOf, ofType } from '../support/events.ts'
import { type Compiled, compile } from './support/build.ts'
import { type Rig, startRig } from './support/rig.ts'

let rig: Rig
let fixtures: Compiled
let folder: string

beforeAll(async () => {
  fixtures = await compile(['test/crash/fixtures/outputs.ts'])
  folder = await mkdtemp(join(tmpdir(), 'pawl-output-'))
  rig = await startRig()
  await rig.supervise({ module: fixtures.path('outputs'), processes: 2 })
})
afterAll(async () => {
  await rig?.close()
  await fixtures?.remove()
  if (folder) await rm(folder, { recursive: true })
})

/** A run whose model returns answers of these kinds; each answer kills the first process that checks it. */
async function give(...kinds: readonly ('good' | 'bad')[]): Promise<{ settled: SettledRun; session: SessionHandle; lines: string[] }> {
  const id = `giver-${randomUUID()}`
  const file = join(folder, id)
  await writeFile(file, '')
  const session = rig.pawl.session(id, { agent: 'giver' }) as SessionHandle
  const settled = await (await session.send([file, ...kinds].join(' '))).settled({ timeout: '120s' })
  return { settled, session, lines: (await readFile(file, 'utf8')).trim().split('\n') }
}

/** The lines that are written if every answer is given once and checked twice. */
const twice = (turns: number): string[] =>
  Array.from({ length: turns }, (_, index) => index + 1).flatMap((turn) => [`model in turn ${turn}`, `checked ${turn}`, `checked ${turn}`])

const DIED = { context: 'model', call_id: null, attempt: 1, class: 'WorkerDied', code: null }

describe('a process that is killed while it checks an output', () => {
  it('a process that is killed while it checks an output leaves the answer to another one, which accepts it', async () => {
    const { settled, session, lines } = await give('good')
    expect(settled).toMatchObject({ status: 'completed', output: { turn: 1, kind: 'good', made: 'by the schema' } })
    expect(lines).toEqual(twice(1))
    expect(await rig.errors(session.id, 1)).toEqual([DIED])
    const events = await eventsOf(session)
    expect(ofType(events, 'model_completed')).toMatchObject([{ turn: 1, attempt: 2 }])
    expect(ofType(events, 'tool_completed')).toHaveLength(1)
    expect(ofType(events, 'run_completed')).toMatchObject([{ outputCall: 't_1_1_0' }])
  })

  it('an answer that does not match survives a death: another process returns it to the model once', async () => {
    const { settled, session, lines } = await give('bad', 'good')
    expect(settled).toMatchObject({ status: 'completed', output: { turn: 2 } })
    expect(lines).toEqual(twice(2))
    expect(ofType(await eventsOf(session), 'tool_failed')).toMatchObject([{ turn: 1, code: 'invalid_output' }])
  })

  it('a process killed while it checks an output does not count as a wrong answer: the fourth mismatch ends the run', async () => {
    const { settled, session, lines } = await give('bad', 'bad', 'bad', 'bad', 'good')
    expect(settled).toMatchObject({ status: 'failed', code: 'invalid_output' })
    expect(lines).toEqual(twice(4))
    const rows = await rig.errors(session.id, 5)
    expect(rows.filter(({ context }) => context === 'model')).toEqual([DIED, DIED, DIED, DIED])
  })
})
