// What the person on call sees: which sessions need a person, why a session is stuck, what each strategy would do, and whether the
// deployment is healthy, even while Temporal, Postgres or the workers are down.
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { ModelError } from 'pawl'
import { doctor, type HealthReport, type SessionHandle } from 'pawl/client'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type Deployment, deploy, SILENT } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { answersIn, inOrder, type Played, type Scene, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'
import { type Ended, runPawl } from './cli/processes.ts'

const schema = `operator_${randomUUID().replaceAll('-', '').slice(0, 16)}`
/** A task queue that no worker polls. */
const deserted = `nobody-polls-${randomUUID()}`
const AWAY = 'postgres://pawl:secret@127.0.0.1:1/x'
const player = stage()
// Other files' sessions are in the same namespace: the ids here begin with op-.
let here: Deployment
let folder: string
let database: pg.Client

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pawl-operator-'))
  database = new pg.Client(inject('stack').databaseUrl)
  await database.connect()
  here = await deploy({ schema })
  await here.startWorker({ agents: [player.agent] })
})
afterAll(async () => {
  await here?.stop()
  await database?.query(`drop schema if exists ${schema} cascade`)
  await database?.end()
  await rm(folder, { recursive: true, force: true })
})

function run(args: string[], env: Record<string, string> = {}): Promise<Ended> {
  const { temporalAddress, databaseUrl } = inject('stack')
  // Wide enough for the names of task queues.
  const where = { TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl, COLUMNS: '200', ...env }
  const onSchema = args.includes('--schema') ? [] : ['--schema', schema]
  return runPawl([...args, ...onSchema], { cwd: folder, env: where })
}

/** One effect and a read, another read, and then a model that fails. */
const failing = (): Scene => ({
  model: (request) => {
    if (answersIn(request) === 2) throw new ModelError('broken', 'it is broken', { retryable: false })
    return inOrder([use('put', 'it'), use('look', 'here')], [use('look', 'there')])(request)
  },
})

/** Plays until the run has settled and everything is stored. */
async function settled({ id, session }: Played): Promise<SessionHandle> {
  await (await session.send('go')).settled({ timeout: 30_000 })
  await until('all is stored', async () => (await session.status()).behind === 0 && (await here.pawl.sessions.get(id)))
  return session
}

describe('a session that has failed', () => {
  it('a session that has failed is shown with what it waits for, its error, its options and the command for each', async () => {
    const session = await settled(player.play(here.pawl, failing(), { id: 'op-failed' }))
    expect(await session.status()).toMatchObject({
      status: 'error',
      from: 'workflow',
      run: { run: 1, turn: 3 },
      error: { code: 'broken', strategy: 'restart_from_last_effect', progress: { completed: [{ callId: 't_1_1_0' }] } },
      waitsFor: [{ for: 'person', to: 'recover' }],
    })
    const { code, stdout } = await run(['status', 'op-failed'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/status +error since \S+Z \(.* ago\)/)
    expect(stdout).toMatch(/error +broken: it is broken/)
    expect(stdout).toMatch(/waits for +a person to recover the run/)
    expect(stdout).toMatch(
      /recover +pawl recover op-failed --strategy restart_from_last_effect --schema \w+ {2}\(suggested\)\n +pawl recover op-failed --strategy/,
    )
    expect(stdout).toMatch(/next +no automatic attempt/)
    expect(stdout).toMatch(/from +the session’s workflow/)
  })

  it('a failed session is shown with what each strategy would keep and redo, and that is what the strategy does', async () => {
    const scene = failing()
    const { session, requests } = player.play(here.pawl, scene, { id: 'op-previewed' })
    await (await session.send('go')).settled({ timeout: 30_000 })
    const report = await until('the run is stored', async () => {
      const stored = await session.runReport()
      return stored.turns[2]?.failedAttempts[0] && stored
    })
    expect(report).toMatchObject({ run: 1, status: 'failed', error: { code: 'broken' } })
    const shown = report.turns.map(({ turn, calls }) => [
      turn,
      ...calls.map(({ tool, status, attempts }) => `${tool} ${status} ${attempts}`),
    ])
    expect(shown).toEqual([[1, 'put completed 1', 'look completed 1'], [2, 'look completed 1'], [3]])
    const [put] = report.turns[0]?.calls ?? []
    expect(put).toMatchObject({ input: expect.any(Object), startedAt: expect.any(Number), resultBlob: null })
    expect(put?.result).toBe('put done')
    expect(put?.endedAt).toBeGreaterThanOrEqual(put?.startedAt ?? Number.POSITIVE_INFINITY)
    expect(report.previews[0]).toMatchObject({
      strategy: 'restart_from_last_effect',
      suggested: true,
      keeps: ['t_1_1_0', 't_1_1_1'],
      leaves: ['t_1_2_0'],
      next: { step: 'model_call', turn: 4 },
    })
    const { stdout } = await run(['run', 'op-previewed', '1'])
    expect(stdout).toMatch(/t_1_1_0 +put +idempotent +completed/)
    expect(stdout).toMatch(/t_1_1_0 input +\{.+\}\n.*t_1_1_0 result +\S/)
    expect(stdout).toMatch(/model, attempt 1: broken: it is broken/)
    expect(stdout).toMatch(
      /restart_from_last_effect \(suggested\)\n +keeps +put \(t_1_1_0\), look \(t_1_1_1\)\n +archives +look \(t_1_2_0\)/,
    )
    const asked = requests.length
    scene.model = () => 'fixed'
    await session.recover()
    await until('the run has completed', async () => (await session.runReport(1)).status === 'completed')
    const resultsIn = JSON.stringify(requests[asked]?.messages)
    expect(['t_1_1_0', 't_1_1_1', 't_1_2_0'].filter((id) => resultsIn.includes(id))).toEqual(['t_1_1_0', 't_1_1_1'])
    expect(ofType(await eventsOf(session), 'turn_started').at(-1)).toMatchObject({ turn: 4 })
    const { turns } = await session.runReport(1)
    expect(turns.filter(({ archived }) => archived).map(({ turn }) => turn)).toEqual([2])
    await expect(session.runReport(9)).rejects.toMatchObject({ code: 'run_not_found' })
  })

  it('a failed session is reported by the store while Temporal is down, and by its workflow while Postgres is down', async () => {
    const asked = (env: Record<string, string>) =>
      Promise.all(
        [
          ['status', 'op-failed'],
          ['run', 'op-failed'],
        ].map((args) => run(args, env)),
      )
    const [stored, live] = await Promise.all([asked({ TEMPORAL_ADDRESS: '127.0.0.1:1' }), asked({ DATABASE_URL: AWAY })])
    expect([...stored, ...live].map(({ code }) => code)).toEqual([0, 0, 0, 0])
    expect(stored[0]?.stdout).toMatch(/status +error [^]*from +the side store\. Temporal does not answer\./)
    expect(stored[1]?.stdout).toMatch(/t_1_1_0 +put[^]*restart_from_last_effect \(suggested\)/)
    expect(live[0]?.stdout).toMatch(/stored +Postgres at 127\.0\.0\.1:1\/x is unavailable[^]*from +the session’s workflow/)
    expect(live[1]?.stdout).toMatch(/Only its newest turn: Postgres at/)
  }, 60_000)
})

describe('a session that waits', () => {
  it('a session that waits says which tool it waits for, and on which worker', async () => {
    const door = gate()
    const { session } = player.play(
      here.pawl,
      { model: inOrder([use('put', 'it')], 'done'), put: (_, ctx) => door.pass(ctx.signal) },
      { id: 'op-busy' },
    )
    await session.send('go')
    await door.reached
    const { status, waitsFor } = await session.status()
    expect(status).toBe('running')
    expect(waitsFor).toMatchObject([{ for: 'tool', callId: 't_1_1_0', tool: 'put', attempt: 1, worker: expect.stringMatching(/^pawl:/) }])
    door.open()
  })

  it('a session that waits says which agent no worker serves, and which queue no worker polls', async () => {
    const unserved = here.pawl.session('op-unserved', { agent: 'nobody-serves-me', notServedAfter: 100 })
    await unserved.send('hello')
    const report = await until('it is in error', async () => {
      const now = await unserved.status()
      return now.status === 'error' && now.waitsFor[0]?.reason !== undefined && now
    })
    expect(report.waitsFor).toMatchObject([
      { for: 'worker', reason: expect.stringContaining('does not serve the agent "nobody-serves-me"') },
    ])
    const elsewhere = here.pawl.session('op-elsewhere', { agent: 'player', taskQueue: deserted })
    await elsewhere.send('hello')
    expect(await elsewhere.status()).toMatchObject({
      status: 'loading',
      from: 'server',
      stored: null,
      waitsFor: [{ for: 'worker', reason: `a worker on task queue "${deserted}"` }],
    })
  }, 60_000)

  it('a session that waits says that its workflow ended during the run, and can be closed only after it is resumed', async () => {
    const door = gate()
    const { session } = player.play(
      here.pawl,
      { model: inOrder([use('look', 'it')], 'done'), look: (_, ctx) => door.pass(ctx.signal) },
      { id: 'op-cut' },
    )
    await session.send('go')
    await door.reached
    await until('the call is stored', async () => (await here.pawl.toolCalls({ session: 'op-cut' })).items.length === 1)
    await here.temporal.workflow.getHandle('pawl:op-cut').terminate('by an operator')
    expect((await session.status()).waitsFor[0]).toEqual({ for: 'person', to: 'resume' })
    await expect(session.close()).rejects.toMatchObject({ name: 'RequestRefusedError', code: 'not_open' })
    door.open()
    await session.resume()
    await session.close()
    await until('it has closed', async () => (await here.pawl.sessions.get('op-cut')).status === 'closed')
    // Closing a closed session is not an error.
    await session.close()
    expect(await session.status()).toMatchObject({ status: 'closed', waitsFor: [{ for: 'message' }] })
  })
})

describe('the overview', () => {
  it('the overview lists sessions that need a person first, then stuck ones, then the rest, and counts them', async () => {
    const lost: Scene = {
      model: inOrder([use('wire', 'it')], 'done'),
      wire() {
        throw new Error('reply lost')
      },
    }
    const told = await settled(player.play(here.pawl, lost, { id: 'op-told' }))
    await told.pause({ by: 'ann', reason: 'a deploy' })
    expect((await told.status()).waitsFor).toMatchObject([{ for: 'person', to: 'unpause', reason: 'a deploy' }, { for: 'message' }])
    const overview = await until('all are there', async () => {
      const now = await here.pawl.overview()
      return now.needs.unpausing === 1 && now.needs.automatic === 1 && now
    })
    expect(overview.items.map(({ sessionId, needs }) => [sessionId, needs])).toEqual([
      ['op-failed', 'recovery'],
      ['op-told', 'unpausing'],
      ['op-unserved', 'automatic'],
    ])
    expect(overview.items[0]).toMatchObject({ agent: 'player', status: 'error', error: { code: 'broken' } })
    expect(overview.needs).toMatchObject({ recovery: 1, automatic: 1, approval: 0 })
    expect(overview.sessions).toMatchObject({ error: 2, waiting: 0 })
    const { code, stdout } = await run(['status'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^2 need a person, 1 stuck; 2 in error/)
    expect(stdout).toMatch(/op-failed +player +error .* recover +broken: it is broken\n/)
    expect(stdout).toMatch(/op-told +player +idle .* unpause +paused since .* by ann: a deploy\n/)
    const [first] = (await run(['status', '--json', '--limit', '1'])).stdout.split('\n')
    expect(JSON.parse(first ?? '')).toMatchObject({ sessionId: 'op-failed', needs: 'recovery' })
    await told.unpause()
  })

  it('the overview lists sessions that no worker has opened, and those whose queue no worker polls', async () => {
    const queue = `deserted-${randomUUID()}`
    const client = await here.connect({ taskQueue: queue })
    const worker = await here.startWorker({ agents: [player.agent], taskQueue: queue })
    const door = gate()
    const { session } = player.play(
      client,
      { model: inOrder([use('look', 'it')], 'done'), look: (_, { signal }) => door.pass(signal) },
      { id: 'op-left' },
    )
    await session.send('go')
    await door.reached
    door.open()
    await worker.stop()
    await session.send('are you there?')
    await client.session('op-first', { agent: 'player' }).send('hello')
    const { stdout } = await until('both are listed', async () => {
      const ended = await run(['status', '--task-queue', queue])
      return /op-first/.test(ended.stdout) && /op-left .*its next step/.test(ended.stdout) && ended
    })
    expect(stdout).toMatch(/ needs? a person, [2-9] stuck;.* 1 not opened yet\n/)
    expect(stdout).toMatch(new RegExp(`op-first +- +loading .* its next step +a worker on task queue "${queue}"`))
    expect(stdout).toMatch(new RegExp(`op-left +player +\\w+ .* its next step +a worker on task queue "${queue}"`))
    const last = JSON.parse((await run(['status', '--json', '--task-queue', queue])).stdout.trim().split('\n').at(-1) ?? '') as object
    expect(last).toMatchObject({ open: 2, unopened: 1, notSeen: [], needs: { recovery: 1 } })
    const nobody = await run(['status', '--task-queue', deserted])
    expect(nobody.stdout).toMatch(
      `No worker polls task queue "${deserted}": 1 open session cannot continue. Start one: pawl worker <module>`,
    )
    expect(nobody.stdout).toMatch(/op-elsewhere +- +loading /)
    await here.startWorker({ agents: [player.agent], taskQueue: queue })
    await until('they continue', async () => !(await run(['status', '--task-queue', queue])).stdout.includes('its next step'))
  }, 60_000)

  it('the overview says what each listed quiet session waits for, and how many it did not ask', async () => {
    const COUNT = 25
    const quiet = stage({ name: 'quiet' })
    const queue = `quiet-${randomUUID()}`
    const client = await here.connect({ taskQueue: queue })
    await here.startWorker({ agents: [quiet.agent], taskQueue: queue })
    const door = gate()
    const scene: Scene = { model: inOrder([use('put', 'it')], 'done'), put: (_, { signal }) => door.pass(signal) }
    const played = Array.from({ length: COUNT }, (_, n) => quiet.play(client, scene, { id: `op-quiet-${n}` }))
    const runs = await Promise.all(played.map(({ session }) => session.send('go')))
    const status = async (...options: string[]): Promise<string> => {
      await database.query(`update ${schema}.sessions set flushed_at = now() - interval '6 minutes' where session_id like 'op-quiet-%'`)
      return (await run(['status', '--task-queue', queue, '--agent', 'quiet', ...options])).stdout
    }
    const line = /^op-quiet-\d+ .* look: it is quiet +the tool put \(t_1_1_0\)/gm
    const all = await until('every call has begun', async () => {
      const stdout = await status('--limit', '100')
      return stdout.match(line)?.length === COUNT && stdout
    })
    expect(all).not.toMatch(/quiet running session/)
    expect(await status('--limit', '5')).toMatch(/^Of 25 quiet running sessions, only 5 said what they wait for: /m)
    door.open()
    await Promise.all(runs.map((one) => one.result({ timeout: 30_000 })))
  }, 60_000)

  it('the overview says what it could not see while Temporal or Postgres does not answer', async () => {
    const [noTemporal, noPostgres, neither] = await Promise.all([
      run(['status'], { TEMPORAL_ADDRESS: '127.0.0.1:1' }),
      run(['status'], { DATABASE_URL: AWAY }),
      run(['status', '--json'], { TEMPORAL_ADDRESS: '127.0.0.1:1', DATABASE_URL: AWAY }),
    ])
    expect([noTemporal.code, noPostgres.code, neither.code]).toEqual([1, 1, 1])
    expect(noTemporal.stdout).toMatch(
      /^at least \d needs? a person, at least \d stuck; .*\n.*Could not check which sessions.*no_temporal: .*No session continues until/,
    )
    expect(noTemporal.stdout).toMatch(/op-failed +player +error .* recover /)
    expect(noPostgres.stdout).toMatch(
      /^\d+ open sessions?\n[^]*Could not check which sessions need a person or are in error: store_unavailable: /,
    )
    expect(JSON.parse(neither.stdout)).toMatchObject({
      open: null,
      workers: null,
      unopened: null,
      notSeen: [/no_temporal/, /store_unavailable/].map((one) => expect.stringMatching(one)),
    })
  }, 60_000)
})

describe('pawl recover', () => {
  const queue = (): string[] => ['--task-queue', here.taskQueue]
  let times = 0
  let isFixed = false
  /** Of the calls in one turn, two complete, one fails and one is lost; then the model fails. */
  const scene: Scene = {
    model(request) {
      if (answersIn(request) === 0) return [use('put', 'one'), use('look', 'two'), use('put', 'three'), use('wire', 'four')]
      if (isFixed) return 'done'
      throw new ModelError('broken', 'it is broken', { retryable: false })
    },
    put({ what }) {
      if (what === 'three') throw new Error('three is down')
      return `paid ${++times}`
    },
    wire() {
      if (!isFixed) throw new Error('reply lost')
      return 'wired'
    },
  }

  it('pawl recover refuses to repeat an effect or leave one unresolved, and says what is possible', async () => {
    await settled(player.play(here.pawl, scene, { id: 'op-chosen' }))
    const shown = (await run(['status', 'op-chosen'])).stdout
    expect(shown).toMatch(
      /recover +pawl recover op-chosen --keep '<calls>' --skip '<calls>' --redo '<calls>' --schema \w+\n +pawl recover op-chosen --strategy abandon/,
    )
    expect((await run(['run', 'op-chosen', ...queue()])).stdout).toMatch(
      / {2}selective\n {4}keeps .*\n {4}choose +put \(t_1_1_0\): --keep, --redo with --force\n {4}choose +look \(t_1_1_1\): --keep, --redo\n {4}choose +put \(t_1_1_2\): --keep, --skip, --redo\n/,
    )
    const refused = await Promise.all([
      run(['recover', 'op-chosen', '--redo', 't_1_1_0', '--skip', 't_1_1_3', ...queue()]),
      run(['recover', 'op-chosen', '--redo', 't_1_1_0,t_1_1_3', '--force', '--by', '', ...queue()]),
      run(['recover', 'op-chosen', '--keep', 't_1_1_0', ...queue()]),
      run(['recover', 'op-chosen', '--strategy', 'restart_run', '--force', ...queue()]),
      run(['recover', '--keep', 't_1_1_0', 'op-chosen', ...queue()]),
      run(['resume', 'op-chosen', ...queue()]),
    ])
    expect(refused.map(({ code }) => code)).toEqual([1, 1, 1, 1, 1, 1])
    const says = refused.map(({ stdout, stderr }) => stderr + stdout)
    expect(says[0]).toMatch(/^would_repeat_effect: t_1_1_0 .*Possible now: selective, abandon\./)
    expect(says[1]).toMatch(/^would_repeat_effect: /)
    expect(says[2]).toMatch(/^outcome_unknown: .*t_1_1_3/)
    expect(says[3]).toMatch(/^invalid_calls: /)
    expect(says[4]).toMatch(/^invalid_usage: .*need a session\. Put its id before/)
    // The session is already open, and the output says how to leave the error.
    expect(says[5]).toMatch(/error +broken.*\n[^]*pawl recover op-chosen --keep/)
    expect((await here.pawl.session('op-chosen').state()).status).toBe('error')
    expect(times).toBe(1)
  }, 60_000)

  it('pawl recover keeps, skips and redoes the calls that it names, all in one turn, and records who forced it', async () => {
    isFixed = true
    const calls = ['--keep', 't_1_1_1', '--skip', 't_1_1_2', '--redo', 't_1_1_0', 't_1_1_3']
    const ended = await run(['recover', 'op-chosen', ...calls, '--force', '--by', 'ann', '--reason', 'it bounced', '--json', ...queue()])
    expect({ ...ended, stdout: JSON.parse(ended.stdout) as object }).toMatchObject({ code: 0, stderr: '', stdout: { event: 'recovered' } })
    await until('the run has completed', async () => (await here.pawl.session('op-chosen').runReport(1)).status === 'completed')
    expect(times).toBe(2)
    const { rows } = await rowsMatchEvents(here.stack, 'op-chosen', { schema })
    expect(rows.tool_calls.map(({ call_id, status }) => `${call_id} ${status}`).sort()).toEqual([
      't_1_1_0 completed',
      't_1_1_0#2 completed',
      't_1_1_1 completed',
      't_1_1_2 skipped',
      't_1_1_3 unknown',
      't_1_1_3#2 completed',
    ])
    const told = rows.recoveries.toSorted((one, other) => Number(one.seq) - Number(other.seq))
    expect(told.filter(({ kind }) => kind === 'recovery_refused').map(({ by }) => by)).toContain(userInfo().username)
    expect(told.at(-1)).toMatchObject({
      kind: 'recovery_started',
      strategy: 'selective',
      by: 'ann',
      note: 'it bounced',
      outcome: 'completed',
      details: { force: true, keep: ['t_1_1_1'], skip: ['t_1_1_2'] },
    })
  }, 60_000)
})

describe('commands for one session', () => {
  it('commands for one session record the operating system’s user unless --by is given', async () => {
    const session = await settled(player.play(here.pawl, { model: () => 'done' }, { id: 'op-kept' }))
    const queue = ['--task-queue', here.taskQueue]
    expect((await run(['checkpoint', 'op-kept', '--reason', 'before the deploy', ...queue])).stdout).toMatch(
      /^checkpoint 2 of session op-kept/,
    )
    expect(await run(['close', 'op-kept', '--by', 'ann', ...queue])).toMatchObject({ code: 0, stdout: 'session op-kept is closed\n' })
    const events = await eventsOf(session)
    expect(ofType(events, 'checkpoint_made').at(-1)).toMatchObject({ reasons: ['before the deploy'], by: userInfo().username })
    expect(ofType(events, 'session_closed')).toMatchObject([{ reason: 'requested', by: 'ann' }])
    const { stdout } = await run(['events', 'op-kept', '--type', 'checkpoint_made,session_closed', '--after', '5', '--json'])
    const listed = stdout
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as { cursor: string; event: { type: string } })
    expect(listed.map(({ event }) => event.type).slice(-2)).toEqual(['checkpoint_made', 'session_closed'])
    expect(Number(listed[0]?.cursor)).toBeGreaterThan(5)
  })

  it('commands for one session find a call by its idempotency key and by the id of its effect', async () => {
    const key = (await here.pawl.toolCalls({ session: 'op-failed' })).items.find(({ tool }) => tool === 'put')?.key ?? ''
    const listed = JSON.parse((await run(['tools', '--key', key, '--json'])).stdout) as object
    expect(listed).toMatchObject({ sessionId: 'op-failed', callId: 't_1_1_0', key })
    expect((await run(['tools', '--effect-id', 're_none', '--json'])).stdout).toBe('')
  })
})

describe('the doctor', () => {
  const levels = ({ checks }: HealthReport): Record<string, string> => Object.fromEntries(checks.map(({ check, level }) => [check, level]))
  const examine = (options: object = {}): Promise<HealthReport> => {
    const { temporalAddress: address, namespace, databaseUrl: postgres } = inject('stack')
    return doctor({ temporal: { address, namespace }, postgres, schema, taskQueue: here.taskQueue, logger: SILENT, ...options })
  }

  it('the doctor reports a deployment as healthy if its agents are served', async () => {
    const own = await deploy({ schema: `${schema}_own` })
    try {
      await own.startWorker({ agents: [player.agent] })
      const { session } = player.play(own.pawl, { model: () => 'done' })
      await (await session.send('go')).result({ timeout: 30_000 })
      const { stdout, code } = await until('the store has its tables', async () => {
        const ended = await run(['doctor', '--task-queue', own.taskQueue, '--schema', `${schema}_own`])
        return ended.code === 0 && ended
      })
      expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^ok +temporal +server \d.*\nok +postgres +server \d/) })
      expect(stdout).toMatch(/ok +clocks +against this machine: Temporal [+-].*, Postgres [+-]/)
      expect(stdout).toMatch(/ok +workers +1 orchestrator: pawl:\S+ \(pawl@\d/)
      expect(stdout).not.toMatch(/^(warn|fail)/m)
    } finally {
      await own.stop()
      await database.query(`drop schema if exists ${schema}_own cascade`)
    }
  }, 60_000)

  it('the doctor finds agents that no worker serves, and sessions that need a person', async () => {
    const report = await examine()
    expect(levels(report)).toMatchObject({ workers: 'ok', agents: 'fail', sessions: 'warn' })
    expect(report.checks.find(({ check }) => check === 'agents')?.measured).toContain('nobody-serves-me')
    const [models] = report.checks.filter(({ check }) => check === 'models')
    expect(models?.measured).toMatch(/scripted for \w+:? \d+ /)
    expect(report.checks.find(({ check }) => check === 'tools')?.details).toEqual(
      expect.arrayContaining([expect.objectContaining({ context: 'tool:wire' }), expect.objectContaining({ context: 'tool:put' })]),
    )
    expect(report.checks.find(({ check }) => check === 'effects')?.details).toEqual(
      expect.arrayContaining([expect.objectContaining({ tool: 'wire' })]),
    )
    expect(report.notExamined).toEqual([])
    expect(report.ok).toBe(false)
  })

  it('the doctor finds a task queue that no worker polls, and the sessions that wait on it', async () => {
    const report = await examine({ taskQueue: deserted })
    expect(levels(report)).toMatchObject({ temporal: 'ok', workers: 'fail', workflows: 'fail' })
    expect(report.checks.find(({ check }) => check === 'workflows')?.measured).toContain('op-elsewhere waits for a worker')
  })

  it('the doctor finds what it can without Postgres, without Temporal, and with a schema that was never migrated', async () => {
    const withoutStore = await examine({ postgres: AWAY })
    expect(withoutStore.notExamined).toEqual([
      'schema',
      'agents',
      'models',
      'gates',
      'tools',
      'effects',
      'sessions',
      'storage',
      'feed',
      'webhooks',
      'budgets',
      'rules',
    ])
    expect(levels(withoutStore)).toEqual({
      temporal: 'ok',
      postgres: 'fail',
      clocks: 'ok',
      workers: 'ok',
      backlog: 'ok',
      schedules: 'ok',
      // A step that was handed back three times is held up.
      workflows: expect.stringMatching(/^(ok|fail)$/),
    })
    expect(levels(await examine({ schema: `${schema}_none` }))).toMatchObject({ postgres: 'ok', schema: 'fail', workers: 'ok' })
    const ended = await run(['doctor', '--json'], { TEMPORAL_ADDRESS: '127.0.0.1:1' })
    const checks = ended.stdout
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as HealthReport['checks'][number])
    expect(ended.code).toBe(1)
    expect(checks[0]).toMatchObject({ check: 'temporal', level: 'fail', measured: expect.stringContaining('no_temporal') })
    expect(levels({ ok: false, checks, notExamined: [] })).toMatchObject({ postgres: 'ok', schema: 'ok', clocks: 'ok', sessions: 'warn' })
  }, 60_000)
})
