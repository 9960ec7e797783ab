// What the commands of the person on call say where a first answer misled: runs whose workflow has ended, budgets that are used up, workers that
// have just stopped.
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ModelError } from 'pawl'
import { doctor } from 'pawl/client'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { approvalStage, once, pendingOf } from '../support/approvals.ts'
import { type Deployment, deploy, SILENT } from '../support/deployment.ts'
import { inOrder, type Played, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'
import { type Ended, runPawl } from './cli/processes.ts'

const schema = `on_call_${randomUUID().replaceAll('-', '').slice(0, 16)}`
const player = stage()
const asking = approvalStage()
let here: Deployment
let folder: string
let database: pg.Client

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pawl-on-call-'))
  database = new pg.Client(inject('stack').databaseUrl)
  await database.connect()
  here = await deploy({ schema })
  await here.startWorker({ agents: [player.agent, asking.agent] })
})
afterAll(async () => {
  await here?.stop()
  await database?.query(`drop schema if exists ${schema} cascade`)
  await database?.end()
  await rm(folder, { recursive: true, force: true })
})

function place(): { cwd: string; env: Record<string, string> } {
  const { temporalAddress, databaseUrl } = inject('stack')
  return { cwd: folder, env: { TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl, COLUMNS: '200' } }
}

function run(args: string[]): Promise<Ended> {
  return runPawl([...args, '--schema', schema, '--task-queue', here.taskQueue], place())
}

/** A session whose workflow is terminated while its tool runs. The tool answers afterwards. */
async function cutOff(id: string): Promise<Played> {
  const door = gate()
  const played = player.play(here.pawl, { model: inOrder([use('look', 'it')], 'done'), look: (_, ctx) => door.pass(ctx.signal) }, { id })
  await played.session.send('go')
  await door.reached
  await until('the call is stored', async () => (await here.pawl.toolCalls({ session: id })).items.length === 1)
  await here.temporal.workflow.getHandle(`pawl:${id}`).terminate('by an operator')
  door.open()
  return played
}

describe('a run whose workflow was terminated', () => {
  it('a run whose workflow was terminated is listed as one that a person must resume, and fails the examination', async () => {
    const { session } = await cutOff('cut-listed')
    const { code, stdout } = await until('it is listed', async () => {
      const ended = await run(['status'])
      return ended.stdout.includes('its workflow has ended') && ended
    })
    expect(code).toBe(0)
    expect(stdout).toMatch(/^1 needs a person, 0 stuck; 0 in error, 0 waiting, 1 running/)
    expect(stdout).toMatch(/cut-listed +player +running .* resume +its workflow has ended during the run\n/)
    expect((await run(['status', 'cut-listed'])).stdout).toMatch(/waits for +a person to reopen it[^\n]*\n +pawl resume cut-listed/)
    const { temporalAddress: address, databaseUrl: postgres } = inject('stack')
    const { checks } = await doctor({ temporal: { address }, postgres, schema, taskQueue: here.taskQueue, logger: SILENT })
    expect(checks.find(({ check }) => check === 'workflows')).toMatchObject({
      level: 'fail',
      measured: expect.stringContaining('the workflow of cut-listed has ended during the run'),
    })
    await session.resume()
    await until('it has answered', async () => (await session.state()).status === 'idle')
    await until('it is no longer listed', async () => !(await run(['status'])).stdout.includes('cut-listed'))
  }, 60_000)

  it('a run whose workflow was terminated is continued by `pawl recover`, which exits with 0', async () => {
    const { session } = await cutOff('cut-recovered')
    const refused = await run(['recover', 'cut-recovered', '--strategy', 'abandon'])
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/workflow_ended: .*`pawl resume cut-recovered /)])
    expect((await session.status()).waitsFor).toEqual([{ for: 'person', to: 'resume' }])
    const { code, stdout, stderr } = await run(['recover', 'cut-recovered'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/status +(running|idle)/)
    await until('it has answered', async () => (await session.state()).status === 'idle')
  }, 60_000)
})

it('`pawl recover` says that the run has failed again, and exits with 1', async () => {
  const broken = () => {
    throw new ModelError('broken', 'it is broken', { retryable: false })
  }
  const { session } = player.play(here.pawl, { model: broken }, { id: 'fails-again' })
  await (await session.send('go')).settled({ timeout: 30_000 })
  const { code, stdout } = await run(['recover', 'fails-again'])
  expect(code).toBe(1)
  expect(stdout).toMatch(/error +broken: [^]*recover +pawl recover [^]*\n {2}it was recovered, but its run failed again\n/)
})

it('a worker that has just stopped is reported as missing as soon as a task waits, not when its last poll would have ended', async () => {
  const queue = `stopped-${randomUUID().slice(0, 8)}`
  const worker = await here.startWorker({ agents: [player.agent], taskQueue: queue })
  const client = await here.connect({ taskQueue: queue })
  const { session } = player.play(client, {}, { id: 'left-alone' })
  await (await session.send('hello')).result({ timeout: 30_000 })
  const levels = async () => {
    const { temporalAddress: address, databaseUrl: postgres } = inject('stack')
    const { checks } = await doctor({ temporal: { address }, postgres, schema, taskQueue: queue, logger: SILENT })
    return Object.fromEntries(checks.map(({ check, level, measured, advice }) => [check, `${level}: ${measured} ${advice}`]))
  }
  expect((await levels()).workers).toMatch(/^ok: 1 orchestrator/)
  await worker.stop()
  await session.send('are you there?')
  const { workers, backlog } = await until(
    'the worker is missed',
    async () => {
      const now = await levels()
      return now.workers?.startsWith('fail') && now
    },
    45_000,
  )
  expect(workers).toMatch(/no worker polls "stopped-\w+" \(workflow tasks\), .*the last to poll: pawl:\S+ \d+ s ago.*Start one/)
  expect(backlog).toMatch(/^warn: .* and no worker has polled it for \d+ s .*Start a worker/)
  expect((await runPawl(['status', '--schema', schema, '--task-queue', queue], place())).stdout).toContain(
    `No worker polls task queue "${queue}"`,
  )
}, 90_000)

it('a worker that has stopped while it was idle is shown with how long ago it was last seen', async () => {
  const queue = `idle-${randomUUID().slice(0, 8)}`
  const worker = await here.startWorker({ agents: [player.agent], taskQueue: queue })
  const status = async () => (await runPawl(['status', '--schema', schema, '--task-queue', queue], place())).stdout
  expect(await status()).not.toContain('last seen')
  await worker.stop()
  const stopped = Date.now()
  const said = await until(
    'it is quiet',
    async () => /1 worker on task queue "idle-\w+", last seen (\d+) s ago/.exec(await status()),
    45_000,
  )
  // The server counts its last poll, which began before it stopped.
  expect(Number(said[1]) * 1_000).toBeGreaterThanOrEqual(10_000)
  expect(Date.now() - stopped).toBeLessThan(45_000)
  const { stdout } = await runPawl(['agents', '--schema', schema, '--task-queue', queue], place())
  expect(stdout).toMatch(/^worker +build +last seen\npawl:\S+ +pawl@\S+ +\d+ s ago\n/)
}, 90_000)

it('a paused session that has messages does not wait for one, and a decision about its call takes effect once it continues', async () => {
  let isLost = false
  const body = () => {
    if (isLost) return 'posted'
    isLost = true
    throw new Error('reply lost')
  }
  const { session, entered } = asking.play(here.pawl, { model: once(['post', 'it']), body }, { id: 'decided-while-paused' })
  await (await session.send('go')).settled({ timeout: 30_000 })
  await session.pause()
  const { code, stdout } = await run(['resolve', 'decided-while-paused', 't_1_1_0', '--retry'])
  expect(code).toBe(0)
  expect(stdout).toMatch(
    /it is executed again\. The session is paused: this takes effect once it continues \(`pawl status decided-while-paused/,
  )
  expect(entered()).toHaveLength(1)
  await session.unpause()
  await until('it has answered', async () => (await session.state()).status === 'idle')
  expect(entered()).toHaveLength(2)
  const waits = async () => (await session.status()).waitsFor.map(({ for: who, to }) => to ?? who)
  await session.pause()
  expect(await waits()).toEqual(['unpause', 'message'])
  await session.send('one more')
  await until('it has the message', async () => (await session.status()).queued === 1)
  expect(await waits()).toEqual(['unpause'])
  await session.unpause()
}, 60_000)

it('an open call whose tool no worker has is listed within seconds, with the tool', async () => {
  const queue = `lacking-${randomUUID().slice(0, 8)}`
  const client = await here.connect({ taskQueue: queue })
  const old = await here.startWorker({ agents: [asking.agent], taskQueue: queue })
  const { session } = asking.play(client, { model: once(['pay', 'it']) }, { id: 'lacks-its-tool' })
  const sent = await session.send('go')
  const [call] = await pendingOf(sent)
  await old.stop()
  const tools = new Map([...asking.agent.tools].filter(([name]) => name !== 'pay'))
  await here.startWorker({ agents: [{ ...asking.agent, tools }], taskQueue: queue })
  if (call?.kind !== 'approval') return expect.fail('it does not wait for an approval')
  await session.approve(call.callId, { digest: call.digest })
  const { stdout } = await until('it is listed', async () => {
    const ended = await runPawl(['status', '--schema', schema, '--task-queue', queue], place())
    return /lacks-its-tool .*look/.test(ended.stdout) && ended
  })
  expect(stdout).toMatch(/lacks-its-tool +\S+ +running +.* look: it is quiet +pay\n/)
  expect((await session.state()).status).toBe('running')
}, 60_000)
