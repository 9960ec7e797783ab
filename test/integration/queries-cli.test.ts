// The commands that query the side store or act on a session, as processes, on a database with real sessions.
import { randomUUID } from 'node:crypto'
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { defineAgent, defineTool } from 'pawl'
import { scripted } from 'pawl/testing'
import pg from 'pg'
import { z } from 'zod'
import type { SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf } from '../support/events.ts'
import { answersIn, inOrder, type Played, saidIn, stage, use } from '../support/scenes.ts'
import { startSlowProxy } from '../support/slow-proxy.ts'
import { ask, passOn, treeStage } from '../support/tree.ts'
import { gate, until } from '../support/until.ts'
import { noteRunning, noteStarting } from '../../src/connect/dev-stack.ts'
import { type Ended, MAIN, pawl, type PawlProcess, runPawl, withoutWaits } from './cli/processes.ts'

const exec = promisify(execFile)

const schema = `cli_${randomUUID().replaceAll('-', '').slice(0, 16)}`
const WILD = 'one\u001b[2J\u001b]0;owned\u0007two\u0000\nthree'
const player = stage()
let here: Deployment
let folder: string
let played: Played

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pawl-queries-'))
  here = await deploy({ schema })
  await here.startWorker({ agents: [player.agent] })
  played = player.play(
    here.pawl,
    {
      model: ({ messages }) => (messages.at(-1)?.content === 'wire it' ? [use('wire', 'money')] : `Noted: ${WILD}`),
      wire() {
        throw new Error('reply lost')
      },
      put: () => 'done',
    },
    { id: 'talked', tags: ['vip'] },
  )
  await settle(played.session, 'hello')
  await settle(played.session, 'and again')
  const events = await eventsOf(played.session)
  await until('all is stored', async () => (await here.pawl.sessions.get('talked')).flushedSeq >= events.length)
}, 60_000)
afterAll(async () => {
  await here?.stop()
  const database = new pg.Client(inject('stack').databaseUrl)
  await database.connect()
  await database.query(`drop schema if exists ${schema} cascade`)
  await database.end()
  await rm(folder, { recursive: true, force: true })
})

async function settle(session: SessionHandle, text: string): Promise<void> {
  await (await session.send(text)).settled({ timeout: 30_000 })
}

function place(env: Record<string, string> = {}) {
  const { temporalAddress, databaseUrl } = inject('stack')
  return { cwd: folder, env: { TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl, ...env } }
}

const onSchema = (args: string[]): string[] => [...args, '--schema', schema]
const start = (args: string[], env?: Record<string, string>): PawlProcess => pawl(onSchema(args), { ...place(env), input: '' })
const run = (args: string[], env?: Record<string, string>): Promise<Ended> => runPawl(onSchema(args), place(env))

/** The JSON lines of a command that must succeed. */
async function json(args: string[]): Promise<Record<string, unknown>[]> {
  const { code, stdout, stderr } = await run([...args, '--json'])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

describe('the query commands', () => {
  it('the query commands show tables to people, in which no message can control the terminal', async () => {
    for (const args of [['sessions'], ['show', 'talked'], ['messages', 'talked'], ['checkpoints', 'talked'], ['usage'], ['events']]) {
      const { code, stdout, stderr } = await run(args)
      expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: '' })
      // oxlint-disable-next-line no-control-regex -- these characters must not appear
      expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/)
    }
    const messages = await run(['messages', 'talked'])
    expect(messages.stdout).toMatch(/^message +turn +at +who +what\n/)
    expect(messages.stdout).toMatch(/m_1_1 +1\.1 +(now|\d+ (s|min) ago) +assistant +Noted: /)
    const wide = await run(['messages', 'talked', '--wide'])
    expect(wide.stdout).toMatch(/m_1_1 +1\.1 +\S+Z +assistant +Noted: one\S*two\S* three/)
  })

  it('the query commands print tables of 100 columns, without colours in a pipe, and say that a list is empty', async () => {
    for (const args of [
      ['sessions'],
      ['messages', 'talked'],
      ['checkpoints', 'talked'],
      ['usage'],
      ['tools'],
      ['pending'],
      ['errors'],
      ['agents'],
    ]) {
      const { stdout } = await run(args, { FORCE_COLOR: '1' })
      expect({ args, long: stdout.split('\n').filter((line) => line.length > 100) }).toEqual({ args, long: [] })
      expect(stdout).not.toContain('\u001b')
    }
    expect((await run(['sessions', '--agent', 'no-such-agent'])).stdout).toBe('no sessions\n')
    expect((await run(['errors', '--until', '2020-01-01'])).stdout).toBe('no errors\n')
    expect((await run(['pending', 'talked'])).stdout).toBe('no calls that wait\n')
    expect((await run(['sessions', '--agent', 'no-such-agent', '--json'])).stdout).toBe('')
  })

  it('the query commands say which agents there are if they select one that no session has', async () => {
    const queue = ['--task-queue', here.taskQueue]
    const selecting = [['sessions'], ['pending'], ['failures'], ['events'], ['status', ...queue], ['recover', '--by', 'me', ...queue]]
    for (const args of selecting) {
      const { code, stderr } = await run([...args, '--agent', 'plaeyr'])
      expect({ args, code, stderr }).toEqual({
        args,
        code: 0,
        stderr: expect.stringMatching(/^No session has the agent "plaeyr"\. Agents with sessions: .*player/),
      })
    }
    expect((await run(['pending', '--agent', 'player'])).stderr).toBe('')
  })

  it('the query commands list the workers, and the agents that answer', async () => {
    const queue = ['--task-queue', here.taskQueue]
    expect((await run(['agents', ...queue])).stdout).toMatch(
      /^worker +build +last seen\npawl:\S+ +pawl@\S+ .+\n\nagent +served +active +waiting for a worker +last answer\n/,
    )
    expect(await json(['agents', ...queue])).toEqual(
      expect.arrayContaining([
        { worker: expect.stringMatching(/^pawl:/), build: expect.stringMatching(/^pawl@/), lastSeen: expect.any(Number) },
        expect.objectContaining({ agent: 'player', served: 'yes' }),
      ]),
    )
  })

  it('the query commands show the status again until they are asked to stop', async () => {
    const watching = start(['status', '--watch'])
    await watching.says(/needs? a person[^]*needs? a person/)
    watching.kill('SIGINT')
    expect(await watching.ended).toMatchObject({ code: 0, stderr: '' })
  })

  it('the query commands print the same as JSON lines, page by page, with a cursor while there is more', async () => {
    const all = await json(['messages', 'talked'])
    expect(all.map(({ messageId }) => messageId).filter((id) => String(id).startsWith('m_'))).toEqual(['m_1_1', 'm_2_1'])
    expect(all[1]).toMatchObject({ content: [{ type: 'text', text: `Noted: ${WILD}` }] })
    const first = await json(['messages', 'talked', '--limit', '3'])
    expect(first).toHaveLength(4)
    expect(first.slice(0, 3)).toEqual(all.slice(0, 3))
    const rest = await json(['messages', 'talked', '--limit', '3', '--cursor', String(first[3]?.cursor)])
    expect(rest).toEqual(all.slice(3))
    expect(await json(['messages', 'talked', '--limit', '1', '--all'])).toEqual(all)
  })

  it('the query commands find sessions by their properties, and show one', async () => {
    const ids = async (...args: string[]) => (await json(['sessions', ...args])).map(({ sessionId }) => sessionId)
    expect(await ids('--tag', 'vip', '--status', 'idle,running', '--agent', 'player', '--since', '1h')).toEqual(['talked'])
    expect(await ids('--tag', 'vip', '--until', '2020-01-01')).toEqual([])
    const [glance] = await json(['show', 'talked'])
    expect(glance).toMatchObject({ session: { sessionId: 'talked', run: 2 }, openCalls: [], errors: [], latestCheckpoint: { version: 2 } })
  })

  it('pawl show says what a session with a run in progress waits for, and shows the rest if Temporal does not answer', async () => {
    const door = gate()
    const busy = player.play(
      here.pawl,
      { model: inOrder([use('put', 'it')], 'done'), put: (_, ctx) => door.pass(ctx.signal) },
      { id: 'busy' },
    )
    const sent = await busy.session.send('go')
    await door.reached
    await until('the call is stored', async () => (await here.pawl.toolCalls({ session: 'busy' })).items.length === 1)
    expect((await run(['show', 'busy'])).stdout).toMatch(/waits for +the tool put \(t_1_1_0\), on \S+, since /)
    expect(await json(['show', 'busy'])).toMatchObject([{ waitsFor: [{ for: 'tool', callId: 't_1_1_0', tool: 'put' }] }])
    const alone = await run(['show', 'busy', '--json'], { TEMPORAL_ADDRESS: '127.0.0.1:1' })
    expect(JSON.parse(alone.stdout)).toMatchObject({ session: { status: 'running' }, waitsFor: null })
    door.open()
    await sent.result({ timeout: 20_000 })
  })

  it('the query commands show the past: messages up to a checkpoint, a message or a run, and the checkpoints themselves', async () => {
    const ids = async (...args: string[]) => (await json(['messages', 'talked', ...args])).map(({ messageId }) => messageId)
    expect(await ids('--checkpoint', '1')).toHaveLength(2)
    expect(await ids('--run', '2')).toEqual(await ids('--checkpoint', '1'))
    // The client returns the same; without the side store it queries the workflow.
    for (const client of [here.pawl, await here.connect({ postgres: false })]) {
      const rows = await client.session('talked').messagesUpTo({ checkpoint: 1 })
      expect(rows.map(({ messageId }) => messageId)).toEqual(await ids('--checkpoint', '1'))
      await expect(client.session('talked').messagesUpTo({ run: 9 })).rejects.toMatchObject({ code: 'run_not_found' })
      await expect(client.session('nobody-to-show').messagesUpTo({ run: 1 })).rejects.toMatchObject({ code: 'session_not_found' })
    }
    expect((await json(['checkpoints', 'talked'])).map(({ version }) => version)).toEqual([2, 1])
    expect((await json(['checkpoints', 'talked', '--latest'])).map(({ version }) => version)).toEqual([2])
  })

  it('the query commands list errors, tool calls, usage and events', async () => {
    const other = player.play(
      here.pawl,
      {
        model: ({ messages }) => (messages.length === 1 ? [use('look', 'x')] : 'seen'),
        look(_, ctx) {
          if (ctx.attempt === 1) throw new Error('not yet')
          return 'found'
        },
      },
      { id: 'looked' },
    )
    await settle(other.session, 'look')
    await until('the call is stored', async () => (await here.pawl.toolCalls({ session: 'looked', status: 'completed' })).items[0])
    expect(await json(['errors', 'looked', '--context', 'tool:look'])).toMatchObject([{ attempt: 1, message: 'not yet' }])
    const place = / 1\.1 +tool:look +1 +yes +t_1_1_0 +\S*look \(\S+queries-cli\.test\.ts:\d+:\d+\) +Error: not yet\n/
    expect((await run(['errors', 'looked', '--wide'])).stdout).toMatch(place)
    expect(await json(['tools', '--tool', 'look', '--status', 'completed,failed'])).toMatchObject([{ sessionId: 'looked', attempt: 2 }])
    expect(await json(['usage', '--by', 'session'])).toEqual(
      expect.arrayContaining([expect.objectContaining({ key: 'talked', calls: 2, unpriced: 2 })]),
    )
    expect(await json(['usage', 'talked', '--by', 'session', '--at', '1'])).toMatchObject([{ key: 'talked', calls: 1 }])
    expect(await json(['usage', 'talked', '--by', 'turn', '--at', '2'])).toMatchObject([{ key: '1.1' }, { key: '2.1' }])
    const events = await json(['events', '--type', 'run_completed', '--agent', 'player'])
    expect(events[0]).toMatchObject({ sessionId: 'talked', event: { type: 'run_completed', run: 1 }, cursor: expect.any(String) })
    const rest = await json(['events', '--type', 'run_completed', '--after', String(events[0]?.cursor)])
    expect(rest).toEqual(events.slice(1))
  })

  it('all commands about one session accept its id in the same place', async () => {
    expect(await json(['errors', 'looked'])).toMatchObject([{ attempt: 1, message: 'not yet' }])
    expect(await json(['tools', 'looked'])).toMatchObject([{ sessionId: 'looked', tool: 'look' }])
    expect(await json(['usage', 'looked', '--by', 'session'])).toMatchObject([{ key: 'looked' }])
    expect(await json(['pending', 'looked'])).toEqual([])
    expect(await json(['tools', 'looked', '--session', 'looked'])).toHaveLength(1)
    expect(await run(['tools', 'looked', '--session', 'talked'])).toMatchObject({ code: 1, stderr: expect.stringContaining('Name one') })
  })

  it('the query commands end quietly when their reader stops reading, as `head` does', async () => {
    const { temporalAddress, databaseUrl } = inject('stack')
    const env = { ...process.env, TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl }
    const piped = `"${process.execPath}" "${MAIN}" messages talked --json --schema ${schema} | sh -c 'exec <&-; sleep 3'; echo "\${PIPESTATUS[0]}"`
    const { stdout, stderr } = await exec('bash', ['-c', piped], { cwd: folder, env })
    expect([stdout, withoutWaits(stderr)]).toEqual(['0\n', ''])
  })

  it('the query commands say on standard error what they are waiting for', async () => {
    const proxy = await startSlowProxy(inject('stack').databaseUrl)
    try {
      proxy.delayMs = 1_200
      const asked = start(['sessions'], { DATABASE_URL: proxy.url })
      expect((await asked.ended).code).toBe(0)
      expect(asked.stderr()).toMatch(/^(waiting for Postgres at 127\.0\.0\.1:\d+\/\w+ \(\d+ s\)\n)+$/)
    } finally {
      await proxy.close()
    }
  })

  it('the query commands show the state of a session that waits for a worker, and what it waits for', async () => {
    // A worker serves its queue and stores its events, but none serves its agent.
    const unserved = here.pawl.session('unserved', { agent: 'nobody-serves-me' })
    await unserved.send('hello')
    await until('it is stored', async () => /status +running[^]*stored \d/.test((await run(['show', 'unserved'])).stdout), 40_000)
    expect((await run(['messages', 'unserved'])).stdout).toContain('hello')
    const away = await run(['show', 'unserved'], { DATABASE_URL: 'postgres://pawl:secret@127.0.0.1:1/x' })
    expect(away.stdout).toMatch(/status +running[^]*stored +Postgres at 127\.0\.0\.1:1\/x is unavailable/)
    const elsewhere = here.pawl.session('elsewhere', { agent: 'player', taskQueue: 'nobody-polls-this' })
    await elsewhere.send('hello')
    const queued = await run(['show', 'elsewhere'])
    expect(queued).toMatchObject({ code: 0, stdout: expect.stringMatching(/waits for +a worker on task queue "nobody-polls-this"/) })
    expect(await run(['messages', 'elsewhere'])).toMatchObject({ code: 1, stderr: expect.stringContaining('pawl show') })
  }, 60_000)

  it('the query commands follow events until they are asked to stop', async () => {
    const { temporalAddress, databaseUrl } = inject('stack')
    const env = { TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl }
    const following = pawl(['events', '--follow', '--json', '--type', 'message_received', '--schema', schema], { cwd: folder, env })
    await following.says(/hello/)
    const late = player.play(here.pawl, { model: () => 'ok' }, { id: 'late' })
    await settle(late.session, 'a late one')
    await following.says(/a late one/)
    following.kill('SIGINT')
    expect(await following.ended).toMatchObject({ code: 0, stderr: '' })
  })

  it('the query commands follow a tree of sessions: each line names the session and its agent, and a cursor resumes in each session', async () => {
    const tree = treeStage()
    const worker = await here.startWorker({ agents: [...tree.agents, player.agent] })
    const { id, session, sessionsOf } = tree.play(here.pawl, {
      boss: passOn(ask('helper', 'find out')),
      helper: passOn(ask('clerk', 'look it up')),
      clerk: () => 'it is blue',
    })
    await settle(session, 'go')
    const [helper = ''] = sessionsOf('helper')
    const [clerk = ''] = sessionsOf('clerk')
    const told = (events: { type: string }[]) => events.some(({ type }) => type === 'caller_told')
    const numbers = await until('both have told their callers', async () => {
      const all = await Promise.all([id, helper, clerk].map((one) => eventsOf(here.pawl.session(one))))
      return all.slice(1).every(told) && all.map((events) => events.length)
    })
    const total = numbers.reduce((sum, one) => sum + one, 0)
    const follow = async (count: number, ...more: string[]) => {
      const following = pawl(onSchema(['events', id, '--follow', '--tree', ...more]), place())
      await until('all is shown', () => following.stdout().split('\n').length > count)
      following.kill('SIGINT')
      const ended = await following.ended
      expect(ended).toMatchObject({ code: 0, stderr: '' })
      return ended.stdout.trim().split('\n')
    }

    const lines = (await follow(total)).join('\n')
    expect(lines).toMatch(new RegExp(`${id} boss +\\d+ +run_completed`))
    expect(lines).toMatch(new RegExp(`${helper} helper +\\d+ +run_started`))
    expect(lines).toMatch(new RegExp(`${clerk} clerk +\\d+ +run_completed`))

    const items = (await follow(total, '--json')).map((line) => JSON.parse(line))
    const half = items.findIndex(({ sessionId, event }) => sessionId === clerk && event.type === 'turn_started')
    expect(items[half]).toMatchObject({ agent: 'clerk', caller: { sessionId: helper, callId: 't_1_1_0' } })
    const left = items.slice(half + 1)
    const rest = (await follow(left.length, '--json', '--after', items[half].cursor)).map((line) => JSON.parse(line))
    const nameOf = ({ sessionId, event }: { sessionId: string; event: { seq: number } }) => `${sessionId} ${event.seq}`
    expect(rest.map(nameOf).toSorted()).toEqual(left.map(nameOf).toSorted())
    await worker.stop()
  })

  it('the query commands do not need Temporal', async () => {
    expect(await run(['sessions', '--json'], { TEMPORAL_ADDRESS: '127.0.0.1:1' })).toMatchObject({ code: 0, stderr: '' })
  })

  it.each<[string, string[], string]>([
    ['an unknown session', ['show', 'nobody-to-show'], 'session_not_found'],
    ['a mistyped session', ['show', 'talkde'], 'Did you mean talked?'],
    ['a tree of an unknown session', ['events', 'nobody-to-show', '--follow', '--tree'], 'session_not_found'],
    ['a tree that is not followed', ['events', 'talked', '--tree'], 'add --follow'],
    ['a tree from an unreadable cursor', ['events', 'talked', '--follow', '--tree', '--after', 'x=y'], 'cursor of a tree'],
    ['errors of an unknown session', ['errors', 'looke'], 'Did you mean looked?'],
    ['tool calls of an unknown session', ['tools', 'nobody-to-show', '--json'], 'session_not_found'],
    ['usage of an unknown session', ['usage', '--session', 'nobody-to-show'], 'session_not_found'],
    ['pending calls of an unknown session', ['pending', 'nobody-to-show'], 'session_not_found'],
    ['usage at a checkpoint of no session', ['usage', '--at', '1'], 'A checkpoint belongs to one session'],
    ['usage at a checkpoint that does not exist', ['usage', 'talked', '--at', '9'], 'checkpoint_not_found'],
    ['the erasure of a mistyped session', ['erase', 'talkd', '--by', 'ann'], 'Did you mean talked?'],
    ['an approval in a mistyped session', ['approve', 'talkd', 't_1_1_0'], 'Did you mean talked?'],
    ['messages of an unknown session', ['messages', 'nobody-to-show'], 'session_not_found'],
    ['a checkpoint that does not exist', ['messages', 'talked', '--checkpoint', '99'], 'checkpoint_not_found'],
    ['an unknown status', ['sessions', '--status', 'bored'], 'invalid_option'],
    ['an invalid cursor', ['errors', '--cursor', 'x'], 'invalid_cursor'],
    ['an invalid limit', ['tools', '--limit', 'many'], 'invalid_usage'],
    ['an invalid time', ['usage', '--since', 'yesterday'], "Use an age such as '2h'"],
    ['no store', ['sessions'], 'no_store'],
    ['a folder in which nothing runs', ['sessions', '--data', 'elsewhere'], 'dev_not_running'],
  ])('a query command about %s says what is wrong on standard error, and exits with 1', async (_, args, says) => {
    const ended = await run(args, says === 'no_store' ? { DATABASE_URL: '' } : {})
    expect(ended).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(says) })
    expect(ended.stderr).not.toMatch(/\n\s+at /)
  })
})

it('a command waits for a pawl dev that is starting', async () => {
  const { temporalAddress, databaseUrl } = inject('stack')
  const data = join(folder, '.pawl')
  const started = await noteStarting(data)
  const command = pawl(['sessions', '--schema', schema], { cwd: folder, env: {}, input: '' })
  await until('it says so', async () => command.stderr().startsWith('waiting for `pawl dev <module>`, which is starting in '))
  const forget = await noteRunning(data, { temporalAddress, databaseUrl, namespace: 'default', taskQueue: here.taskQueue })
  await started()
  expect(await command.ended).toMatchObject({ code: 0, stdout: expect.stringContaining('talked') })
  await forget()
})

describe('the commands that act on a session', () => {
  it('the commands that act on a session roll back, and say which effects remain', async () => {
    const moved = player.play(
      here.pawl,
      { model: ({ messages }) => (messages.length === 3 ? [use('put', 'it')] : 'ok') },
      { id: 'asked-moved' },
    )
    await settle(moved.session, 'hello')
    await settle(moved.session, 'put it')
    const queue = ['--task-queue', here.taskQueue]
    const back = await run(['rollback', 'asked-moved', '--checkpoint', '1', '--by', 'ann', '--reason', 'wrong one', ...queue])
    expect(back).toMatchObject({ code: 0, stderr: '' })
    expect(back.stdout).toMatch(/^session asked-moved is back at event \d+\nnot undone, 1 effect:\n- t_2_1_0 put completed/)
    const again = await json(['rollback', 'asked-moved', '--run', '1', ...queue])
    expect(again).toMatchObject([{ event: 'rolled_back', effects: [{ callId: 't_2_1_0' }], moreEffects: 0, toSeq: expect.any(Number) }])
    await until('it is stored', async () => (await here.pawl.messages({ session: 'asked-moved' })).items.length === 0)
    expect((await json(['messages', 'asked-moved', '--archived'])).length).toBeGreaterThan(2)
  })

  it('the commands that act on a session fork, and resume a closed session', async () => {
    const queue = ['--task-queue', here.taskQueue]
    player.play(here.pawl, {}, { id: 'copy' })
    expect(await json(['fork', 'talked', '--checkpoint', '1', '--id', 'copy', ...queue])).toEqual([
      { event: 'forked', sessionId: 'copy', from: 'talked' },
    ])
    await until('the copy is stored', async () => (await here.pawl.sessions.get('copy')).parent === 'talked')
    expect(await json(['messages', 'copy'])).toHaveLength(2)
    await here.pawl.session('copy').close()
    await here.workflowEnded('copy')
    expect(await json(['resume', 'copy', ...queue])).toMatchObject([{ event: 'resumed', sessionId: 'copy', status: 'idle' }])
  })

  it('the commands that act on a session send, interrupt, pause and unpause', async () => {
    const queue = ['--task-queue', here.taskQueue]
    const id = 'asked-held'
    const doors = [gate(), gate()]
    const held = player.play(
      here.pawl,
      { model: (request, ctx) => doors[saidIn(request).length - 1]?.pass(ctx.signal).then(() => 'late') ?? saidIn(request).join(', ') },
      { id },
    )
    const sent = await json(['send', id, 'one', '--agent', 'player', '--message-id', 'm1', ...queue])
    expect(sent).toEqual([{ event: 'sent', sessionId: id, messageId: 'm1' }])
    await doors[0]?.reached
    expect(await json(['send', id, 'two', '--interrupt', '--message-id', 'm2', '--deadline', '10m', ...queue])).toMatchObject([
      { messageId: 'm2' },
    ])
    expect(await held.session.run('m1').settled({ timeout: 20_000 })).toMatchObject({ status: 'interrupted' })
    await doors[1]?.reached
    expect((await held.session.state()).current).toMatchObject({ messageId: 'm2', deadlineAt: expect.any(Number) })
    const interrupted = await json(['interrupt', id, '--by', 'ann', '--reason', 'enough', ...queue])
    expect(interrupted).toMatchObject([{ event: 'interrupted', status: 'idle', run: 2 }])
    expect(await held.session.run('m2').settled({ timeout: 20_000 })).toMatchObject({ status: 'interrupted', reason: 'enough' })

    const paused = { by: 'ann', reason: 'a break' }
    expect(await json(['pause', id, '--by', 'ann', '--reason', 'a break', ...queue])).toMatchObject([
      { event: 'paused', already: false, paused },
    ])
    const again = await run(['pause', id, ...queue])
    expect(again).toMatchObject({ code: 0, stderr: '' })
    expect(again.stdout).toMatch(/paused +since \S+Z by ann: a break\n[^]*it was already paused; nothing changed\n$/)
    await until('it is listed', async () => (await here.pawl.sessions.list({ paused: true })).items.length === 1)
    expect((await run(['sessions', '--paused'])).stdout).toMatch(/asked-held +player +idle, paused/)
    expect((await run(['show', id])).stdout).toMatch(/paused +since \S+Z by ann: a break\n/)
    expect(await json(['unpause', id, ...queue])).toMatchObject([{ event: 'unpaused', already: false }])
    expect(await (await held.session.send('three')).result({ timeout: 20_000 })).toMatchObject({ text: 'one, two, three' })
  })

  it('pawl interrupt says that the run is over although the next one has already begun', async () => {
    const own = await deploy({ schema })
    const second = gate()
    try {
      const input = z.object({})
      const asks = defineTool({ name: 'ask', description: 'Asks.', effect: 'external', approval: true, input, execute: () => 'done' })
      const model = scripted(async (request, { signal }) => {
        if (!saidIn(request).includes('two')) return [{ type: 'tool_use', id: 'u', name: 'ask', input: {} }]
        await second.pass(signal)
        return 'done'
      })
      await own.startWorker({ agents: [defineAgent({ name: 'asker', instructions: '', tools: [asks], model })] })
      const id = `asked-next-${randomUUID()}`
      const session = own.pawl.session(id, { agent: 'asker' })
      await session.send('one')
      await until('the first run waits', async () => (await session.state()).status === 'waiting')
      const next = await session.send('two')
      const said = await json(['interrupt', id, '--by', 'ann', '--task-queue', own.taskQueue])
      expect(said).toMatchObject([{ event: 'interrupted', current: { run: 2 } }])
      second.open()
      expect(await next.settled({ timeout: 20_000 })).toMatchObject({ status: 'completed', run: 2 })
    } finally {
      second.open()
      await own.stop()
    }
  })

  it('a chat continues a session whose workflow was terminated, and shows how its run ends', async () => {
    const first = gate()
    const cut = player.play(
      here.pawl,
      {
        model: (request) => (answersIn(request) === 0 ? [use('put', 'it')] : 'went on'),
        put: (_, ctx) => (cut.count('put') === 1 ? first.pass(ctx.signal) : 'put'),
      },
      { id: 'cut' },
    )
    await cut.session.send('do it')
    await first.reached
    await until('the call is stored', async () => (await here.pawl.toolCalls({ session: 'cut' })).items.length === 1)
    await here.temporal.workflow.getHandle('pawl:cut').terminate('out of the way')
    const chat = await start(['chat', '--resume', 'cut', '--task-queue', here.taskQueue]).ended
    first.open()
    expect(chat).toMatchObject({ code: 0, stderr: '' })
    expect(chat.stdout).toContain('you › do it')
    expect(chat.stdout).toContain('player › went on')
  })

  it.each<[string, string[], string]>([
    ['a chat without an agent', ['chat'], 'invalid_usage: No agent was named'],
    ['nowhere to go', ['rollback', 'talked'], 'invalid_usage'],
    ['two ways at once', ['rollback', 'talked', '--run', '1', '--checkpoint', '1'], 'cannot be used with'],
    ['a checkpoint that does not exist', ['rollback', 'talked', '--checkpoint', '99'], 'checkpoint_not_found'],
    ['an id that is taken', ['fork', 'talked', '--id', 'talked'], 'session_exists'],
    ['an unknown session', ['resume', 'nobody-to-show'], 'session_not_found'],
    ['an interrupt of an unknown session', ['interrupt', 'nobody-to-show'], 'session_not_found'],
    ['a message to an unknown session that names no agent', ['send', 'nobody-to-show', 'hello'], 'no_agent'],
  ])('a command with %s is refused with exit code 1', async (_, args, says) => {
    expect(await run([...args, '--task-queue', here.taskQueue])).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining(says),
    })
  })
})
