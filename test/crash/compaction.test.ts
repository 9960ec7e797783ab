// A process dies while the conversation is summarised: each summary is recorded once, and the session continues as it would have.
import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsOf, ofType } from '../support/events.ts'
import { seed, variants } from '../support/sizes.ts'
import { type Compiled, compile } from './support/build.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'
import { untilFound } from '../support/until.ts'

let rig: Rig
let fixtures: Compiled
let folder: string
let workers: Supervised

beforeAll(async () => {
  fixtures = await compile(['test/crash/fixtures/compacting.ts'])
  folder = await mkdtemp(join(tmpdir(), 'pawl-compacting-'))
  rig = await startRig()
  workers = await rig.supervise({ module: fixtures.path('compacting'), processes: 2 })
})
afterAll(async () => {
  await rig?.close()
  await fixtures?.remove()
  if (folder) await rm(folder, { recursive: true })
})

interface Lines {
  what: string
  turn: number
  pid: number
}

async function open() {
  const id = `compacting-${randomUUID()}`
  const [file, gate] = [join(folder, id), join(folder, `${id}.gate`)]
  await writeFile(file, '')
  const session = rig.pawl.session(id, { agent: 'compacting', context: { file, gate } }) as SessionHandle
  const lines = async (what: string): Promise<Lines[]> =>
    (await readFile(file, 'utf8'))
      .split('\n')
      .map((line) => line.split(' '))
      .filter(([name]) => name === what)
      .map(([name = '', turn, pid]) => ({ what: name, turn: Number(turn), pid: Number(pid) }))
  return { session, lines, shut: () => writeFile(gate, ''), open: () => rm(gate) }
}

/** The outcome of a session, without what differs between sessions. */
async function outcomeOf(session: SessionHandle) {
  const events = await eventsOf(session)
  const messages = await session.messages()
  return {
    summaries: ofType(events, 'compacted').map(({ turn, messages: count, summary }) => ({ turn, count, summary })),
    replays: ofType(events, 'tool_completed').map(({ callId, replayOf = null }) => [callId, replayOf]),
    messages: messages.map(({ kind, content }) => [kind, content]),
  }
}

describe('when a process dies while a conversation is summarised', () => {
  it.each(variants(['executor', 'orchestrator'] as const, 1))(
    `a killed %s is replaced: the summary is recorded once, and nothing else differs (seed ${seed}, again with PAWL_SEED)`,
    async (which) => {
      const undisturbed = await open()
      expect((await (await undisturbed.session.send('go')).result({ timeout: '60s' })).text).toBe('done')
      const expected = await outcomeOf(undisturbed.session)
      expect(expected.summaries.length).toBeGreaterThan(1)
      expect(expected.replays.at(-1)).toEqual(['t_1_7_0', 't_1_1_0'])

      await workers.serving(2)
      const killed = await open()
      await killed.shut()
      const run = await killed.session.send('go')
      const [asked] = await untilFound(async () => {
        const found = await killed.lines('compaction')
        return found.length > 0 && found
      })
      const pid = which === 'executor' ? asked?.pid : workers.supervisor.orchestratorPid()
      process.kill(pid ?? expect.fail('no pid'), 'SIGKILL')
      await killed.open()
      expect((await run.result({ timeout: '120s' })).text).toBe('done')
      expect(await outcomeOf(killed.session)).toEqual(expected)
      expect(await killed.lines('refund')).toHaveLength(1)
      const again = (await killed.lines('compaction')).filter(({ turn }) => turn === asked?.turn)
      // An executor outlives its orchestrator, and so does its summary.
      expect(again).toHaveLength(which === 'executor' ? 2 : 1)
      const rows = await rig.errors(killed.session.id, which === 'executor' ? 1 : 0)
      expect(rows).toEqual(
        which === 'executor' ? [{ context: 'compaction', call_id: null, attempt: 1, class: 'WorkerDied', code: null }] : [],
      )
    },
  )
})
