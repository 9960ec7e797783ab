// A parent that is interrupted, goes back, is forked or erased while its agents work, and a child that is terminated.
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { calls } from 'pawl/testing'
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { deploy, type Deployment } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { ask, passOn, resultsIn, startImpatient, treeStage } from '../support/tree.ts'
import { gate, until } from '../support/until.ts'
import type { Client } from '@temporalio/client'
import { erase } from '../../src/client/admin/erasing.ts'
import { canonicalJson } from '../../src/session/canonical.ts'
import { sha256Hex } from '../../src/agent/sha256.ts'
import { childIdOf } from '../../src/session/agents/agent-calls.ts'
import { openStore, type Store } from '../../src/store/index.ts'
import { workflowIdOf } from '../../src/session/protocol/protocol.ts'

let here: Deployment
const tree = treeStage()

beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: tree.agents })
})
afterAll(() => here?.stop())

const TIMEOUT = { timeout: 30_000 }

/** A tree whose clerk waits for an approval. */
function paying() {
  return tree.play(here.pawl, {
    boss: passOn(ask('helper', 'pay it')),
    helper: passOn(ask('clerk', 'pay it')),
    clerk: passOn({ tool: 'pay', input: { what: 'rent' } }),
  })
}

async function waitingClerk({ sessionsOf }: Pick<ReturnType<typeof paying>, 'sessionsOf'>): Promise<string> {
  return until('the clerk waits', async () => {
    const [id] = sessionsOf('clerk')
    return id !== undefined && (await here.pawl.session(id).state()).status === 'waiting' && id
  })
}

async function approve(clerk: string): Promise<void> {
  const [call] = (await here.pawl.session(clerk).state()).current?.calls ?? []
  await here.pawl.session(clerk).approve(call?.callId ?? '', { digest: call?.digest ?? '' })
}

/** A tree whose helper has answered. */
async function answered() {
  const played = tree.play(here.pawl, { boss: passOn(ask('helper', 'x')), helper: () => 'done' })
  await (await played.session.send('go')).result(TIMEOUT)
  const [helper = ''] = played.sessionsOf('helper')
  await until('it is stored', async () => (await here.pawl.sessions.get(helper))?.status === 'idle')
  return { played, helper }
}

/** Erases in a process of its own, which is killed when it is about to delete the first history of `child`. */
async function killedErasure(root: string, child: string): Promise<{ signal: string | null }> {
  const { temporalAddress: address, namespace, databaseUrl } = here.stack
  const code = `
    import { Pawl } from 'pawl/client'
    import { Client, Connection } from '@temporalio/client'
    const connection = await Connection.connect({ address: ${JSON.stringify(address)} })
    const { workflowService } = connection
    const remove = workflowService.deleteWorkflowExecution.bind(workflowService)
    workflowService.deleteWorkflowExecution = (request, ...more) => {
      if (request.workflowExecution.workflowId === ${JSON.stringify(workflowIdOf(child))}) process.kill(process.pid, 'SIGKILL')
      return remove(request, ...more)
    }
    const temporal = new Client({ connection, namespace: ${JSON.stringify(namespace)} })
    const pawl = await Pawl.connect({ temporal, postgres: ${JSON.stringify(databaseUrl)} })
    await pawl.erase(${JSON.stringify(root)}, { by: 'ann', force: true })
  `
  const erasing = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'ignore', 'inherit'] })
  const [, signal] = (await once(erasing, 'exit')) as [number | null, string | null]
  return { signal }
}

async function executionsOf(id: string): Promise<string[]> {
  const found: string[] = []
  for await (const { runId } of here.temporal.workflow.list({ query: `WorkflowId = "${workflowIdOf(id)}"` })) found.push(runId)
  return found
}

const statusOf = async (id: string) => (await here.pawl.session(id).state()).status

it('an interrupt of the root ends the run at once, and stops every session below', async () => {
  const played = paying()
  const run = await played.session.send('go')
  const clerk = await waitingClerk(played)
  await played.session.interrupt({ by: 'ann' })
  expect((await run.settled(TIMEOUT)).status).toBe('interrupted')
  const [helper = ''] = played.sessionsOf('helper')
  await until('both have stopped', async () => (await statusOf(helper)) === 'idle' && (await statusOf(clerk)) === 'idle')
  expect(ofType(await eventsOf(here.pawl.session(clerk)), 'run_interrupted')).toMatchObject([{ by: 'agent:helper' }])
  expect(played.paid).toEqual([])
})

it('an interrupt of the root stops a child whose workflow was terminated, and the sessions below that', async () => {
  const played = paying()
  const run = await played.session.send('go')
  const clerk = await waitingClerk(played)
  const [helper = ''] = played.sessionsOf('helper')
  await here.temporal.workflow.getHandle(workflowIdOf(helper)).terminate()
  await played.session.interrupt({ by: 'ann' })
  expect((await run.settled(TIMEOUT)).status).toBe('interrupted')
  await until('both have stopped', async () => (await statusOf(helper)) === 'idle' && (await statusOf(clerk)) === 'idle')
  const stopped = await Promise.all([helper, clerk].map((id) => eventsOf(here.pawl.session(id))))
  expect(stopped.map((events) => ofType(events, 'run_interrupted').map(({ by }) => by))).toEqual([['agent:boss'], ['agent:helper']])
})

it('a regeneration lets the child finish, and finds its answer: nothing below happens twice', async () => {
  const played = paying()
  await played.session.send('go')
  const clerk = await waitingClerk(played)
  const again = await played.session.regenerate({ by: 'ann' })
  await approve(clerk)
  expect((await again.result(TIMEOUT)).text).toBe('got: got: got: paid')
  expect(played.paid).toEqual([clerk])
  expect([played.sessionsOf('helper').length, played.count('clerk')]).toEqual([1, 2])
  expect(ofType(await eventsOf(here.pawl.session(clerk)), 'run_interrupted')).toEqual([])
})

it('a stop for an earlier question that arrives late leaves the child’s newer question alone', async () => {
  const open = gate()
  const played = tree.play(here.pawl, {
    boss: passOn(ask('helper', 'x')),
    helper: async () => {
      await open.pass()
      return 'done'
    },
  })
  const run = await played.session.send('go')
  const helper = await until('the helper is asked', () => played.sessionsOf('helper')[0])
  const events = await eventsOf(here.pawl.session(helper))
  const [{ caller } = {}] = ofType(events, 'session_started')
  const [{ call } = {}] = ofType(events, 'message_received')
  const workflow = here.temporal.workflow.getHandle(workflowIdOf(helper))
  const earlier = { ...call, seq: (call?.seq ?? 0) - 1 }
  await workflow.signal('ask', { caller, call: earlier, agent: 'helper', by: 'boss', content: '', stop: true })
  expect(ofType(await eventsOf(here.pawl.session(helper)), 'run_interrupted')).toEqual([])
  open.open()
  expect((await run.result(TIMEOUT)).text).toBe('got: done')
})

it('a child that a person regenerates while it works answers its caller once, and is not reported as interrupted', async () => {
  const open = gate()
  const played = tree.play(here.pawl, {
    boss: passOn(ask('helper', 'x')),
    helper: async () => {
      if (played.count('helper') === 1) await open.pass()
      return 'at the second attempt'
    },
  })
  const run = await played.session.send('go')
  const helper = await until('the helper is asked', () => played.sessionsOf('helper')[0])
  await here.pawl.session(helper).regenerate({ by: 'ann' })
  expect((await run.result(TIMEOUT)).text).toBe('got: at the second attempt')
  const told = ofType(await eventsOf(here.pawl.session(helper)), 'caller_told')
  expect(told.map(({ as }) => as)).toEqual(['answered'])
  open.open()
})

it('a regenerated call asks the child again at once if the child’s work on the first one fails or is interrupted', async () => {
  const open = gate()
  const played = tree.play(here.pawl, {
    boss: passOn(ask('helper', 'find it')),
    helper: async ({ messages }) => {
      if (JSON.stringify(messages).split('find it').length > 2) return 'at the second attempt'
      await open.pass()
      throw Object.assign(new Error('it is broken'), { name: 'TypeError' })
    },
  })
  await played.session.send('go')
  await until('the helper is asked', () => played.count('helper') === 1)
  const again = await played.session.regenerate({ by: 'ann' })
  await until('it is asked anew', async () => ofType(await eventsOf(played.session), 'answer_requested').length === 2)
  open.open()
  expect((await again.result(TIMEOUT)).text).toBe('got: at the second attempt')
  expect(played.sessionsOf('helper')).toHaveLength(1)
})

/** A tree whose helper was interrupted, and is asked again while `before` holds: its question waits for a run. */
async function askedAgain(before: (helper: string) => Promise<unknown>) {
  const open = gate()
  const body = gate()
  const played = tree.play(here.pawl, {
    boss: async ({ messages }) => {
      if (resultsIn(messages).length > 0) await open.pass()
      return calls('helper', { message: 'find it' })
    },
    helper: () => body.pass().then(() => 'found'),
  })
  const run = await played.session.send('go')
  await until('the helper is asked', () => played.count('helper') === 1)
  const [helper = ''] = played.sessionsOf('helper')
  await here.pawl.session(helper).interrupt({ by: 'ann' })
  await until('the boss has been told', () => played.count('boss') === 2)
  await before(helper)
  open.open()
  const questions = async () => ofType(await eventsOf(here.pawl.session(helper)), 'message_received').filter(({ call }) => call)
  await until('the helper is asked again', async () => (await questions()).length === 2)
  await played.session.interrupt({ by: 'ann' })
  expect((await run.settled(TIMEOUT)).status).toBe('interrupted')
  return { ...played, helper, body }
}

it('a stop ends a question that waits in a paused child, which does not answer it later', async () => {
  const { helper, count, body } = await askedAgain((id) => here.pawl.session(id).pause({ by: 'ann' }))
  const child = here.pawl.session(helper)
  await until('the caller is told', async () => ofType(await eventsOf(child), 'caller_told').length === 2)
  expect(ofType(await eventsOf(child), 'run_interrupted').map(({ by }) => by)).toEqual(['ann', 'agent:boss'])
  expect((await child.state()).paused).toMatchObject({ by: 'ann' })
  await child.unpause()
  body.open()
  await (await child.send('something else')).result(TIMEOUT)
  expect(count('helper')).toBe(2)
})

it('a regeneration of a completed run replays the answer without asking the child', async () => {
  const played = tree.play(here.pawl, { boss: passOn(ask('helper', 'x')) })
  await (await played.session.send('go')).result(TIMEOUT)
  const again = await played.session.regenerate()
  expect((await again.result(TIMEOUT)).text).toMatch(/helper says: x$/)
  expect(played.count('helper')).toBe(1)
})

it('a rollback behind the call stops the child, whose late report changes nothing', async () => {
  const played = paying()
  await played.session.send('go')
  const clerk = await waitingClerk(played)
  await played.session.rollback({ run: 1, by: 'ann' })
  const [helper = ''] = played.sessionsOf('helper')
  await until('it has stopped', async () => (await statusOf(helper)) === 'idle' && (await statusOf(clerk)) === 'idle')
  await until('it has reported', async () => ofType(await eventsOf(here.pawl.session(helper)), 'caller_told').length === 1)
  expect((await played.session.state()).current).toBeNull()
  expect(played.paid).toEqual([])
})

it('a fork leaves the children of its origin alone, and calls its own', async () => {
  const played = paying()
  const run = await played.session.send('go')
  const clerk = await waitingClerk(played)
  const fork = await played.session.fork({ interrupt: false, id: `${played.id}-fork` } as never)
  expect((await fork.state()).current).toBeNull()
  await approve(clerk)
  expect((await run.result(TIMEOUT)).text).toBe('got: got: got: paid')
  expect(played.paid).toEqual([clerk])
})

it('a child whose workflow an operator terminates continues when its parent asks again', async () => {
  const id = `asks-${randomUUID()}`
  const played = tree.play(
    here.pawl,
    { boss: passOn(ask('helper', 'pay it')), helper: passOn({ tool: 'pay', input: { what: 'rent' } }) },
    { id },
  )
  await startImpatient(here, id)
  const helper = await until('the helper waits', async () => {
    const [one] = played.sessionsOf('helper')
    return one !== undefined && (await statusOf(one)) === 'waiting' && one
  })
  await until('its request is stored', async () => (await here.pawl.pending.list({ session: helper })).items.length === 1)
  await here.temporal.workflow.getHandle(workflowIdOf(helper)).terminate()
  await until(
    'it is open again',
    async () => (await here.temporal.workflow.getHandle(workflowIdOf(helper)).describe()).status.name === 'RUNNING',
  )
  await until('it waits again', async () => (await statusOf(helper)) === 'waiting')
  await approve(helper)
  expect((await played.session.run('m').result(TIMEOUT)).text).toBe('got: got: paid')
  expect(played.paid).toEqual([helper])
})

it('a session that exists under a child’s id refuses the question, and the parent’s model gets an error result', async () => {
  const played = tree.play(here.pawl, { boss: passOn(ask('helper', 'mine')) })
  const key = sha256Hex(canonicalJson([played.id, 1, 'helper', { message: 'mine' }]))
  const child = here.pawl.session(childIdOf(played.id, key), { agent: 'helper' })
  await (await child.send('I was here first')).result(TIMEOUT)
  const run = await played.session.send('go')
  expect((await run.result(TIMEOUT)).text).toMatch(/^got: The agent "helper" could not be asked\..*does not answer this call/)
  expect(played.count('helper')).toBe(1)
  expect((await child.state()).run).toBe(1)
  expect((await played.session.state()).spend).toBeUndefined()
})

it('an erasure of the root erases every session below, open or not, and nothing of the tree comes back', async () => {
  const played = paying()
  await played.session.send('go')
  const clerk = await waitingClerk(played)
  const [helper = ''] = played.sessionsOf('helper')
  await until('all are stored', async () => (await here.pawl.pending.list({ session: clerk })).items.length === 1)
  // Its id begins like a child's, but it is nobody's child.
  const other = here.pawl.session(`${played.id}/0123456789ab`, { agent: 'clerk' })
  await other.send('hello')
  await until('it is stored', async () => (await here.pawl.pending.list({ session: other.id })).items.length === 1)
  const report = await here.pawl.erase(played.id, { by: 'ann', force: true })
  expect(report.children).toEqual([helper, clerk])
  for (const id of [played.id, helper, clerk]) expect((await here.pawl.sessions.get(id))?.erasedAt).toBeInstanceOf(Date)
  expect((await here.pawl.sessions.get(other.id))?.erasedAt).toBeNull()
  expect(played.paid).toEqual([])
})

it('an erasure finds children that neither the store nor the server lists yet', async () => {
  const played = paying()
  await played.session.send('go')
  const clerk = await waitingClerk(played)
  const [helper = ''] = played.sessionsOf('helper')
  const store = openStore({ postgres: here.stack.databaseUrl })
  // In the moments after a start, the lists of both are behind.
  const isBehind: Store = { ...store, upkeep: { ...store.upkeep, children: async () => [] } }
  const workflow = Object.create(here.temporal.workflow, { list: { value: () => [] } }) as Client['workflow']
  const lagging = Object.create(here.temporal, { workflow: { value: workflow } }) as Client
  const report = await erase(lagging, isBehind, played.id, { by: 'ann', force: true })
  expect(report.children).toEqual([helper, clerk])
  for (const id of [played.id, helper, clerk]) expect((await here.pawl.sessions.get(id))?.erasedAt).toBeInstanceOf(Date)
  await store.close()
})

it('an erasure that was killed between the rows and the histories of a child is completed when it is run again', async () => {
  const { played, helper } = await answered()
  const { signal } = await killedErasure(played.id, helper)
  expect(signal).toBe('SIGKILL')
  expect((await here.pawl.sessions.get(helper))?.erasedAt).toBeInstanceOf(Date)
  expect(await executionsOf(helper)).not.toEqual([])
  await here.pawl.erase(played.id, { by: 'ann', force: true })
  await until('the histories of the child are gone', async () => (await executionsOf(helper)).length === 0, 90_000)
})

it('an erasure of the root erases a child whose rows the store has lost, and a rebuild does not bring it back', async () => {
  const { played, helper } = await answered()
  await until('it is listed', async () => (await executionsOf(helper)).length > 0)
  const db = new pg.Client(here.stack.databaseUrl)
  await db.connect()
  const { rows } =
    await db.query(`select table_name from information_schema.columns join information_schema.tables using (table_schema, table_name)
    where table_schema = 'pawl' and column_name = 'session_id' and table_type = 'BASE TABLE'`)
  for (const { table_name: table } of rows as { table_name: string }[])
    await db.query(`delete from pawl.${table} where session_id = $1`, [helper])
  await db.end()
  const report = await here.pawl.erase(played.id, { by: 'ann', force: true })
  expect(report.children).toEqual([helper])
  await here.pawl.rebuild({ taskQueue: here.taskQueue })
  expect(
    (await here.pawl
      .session(helper)
      .messages()
      .catch(() => [])) as unknown[],
  ).toEqual([])
  await until('its histories are gone', async () => (await executionsOf(helper)).length === 0, 90_000)
})

it('a call whose agent was erased while it worked fails, and the agent does not begin anew', async () => {
  const id = `erases-${randomUUID()}`
  const open = gate()
  const played = tree.play(
    here.pawl,
    {
      boss: passOn(ask('helper', 'x')),
      helper: async () => {
        await open.pass()
        return 'too late'
      },
    },
    { id },
  )
  await startImpatient(here, id)
  const [helper = ''] = await until('the helper is asked', () => played.sessionsOf('helper').length === 1 && played.sessionsOf('helper'))
  await here.pawl.erase(helper, { by: 'ann', force: true })
  open.open()
  const { text } = await played.session.run('m').result(TIMEOUT)
  expect(text).toMatch(/^got: The agent "helper" failed \(session_erased\)\. Its session was erased before it answered\./)
  expect(played.count('helper')).toBe(1)
  expect((await here.pawl.sessions.get(helper))?.erasedAt).toBeInstanceOf(Date)
})

it('a child whose parent is gone finishes, and its report starts nothing', async () => {
  const played = paying()
  await played.session.send('go')
  const clerk = await waitingClerk(played)
  const [helper = ''] = played.sessionsOf('helper')
  // An erasure that stops halfway: the parent's content is gone, the children are not.
  await here.temporal.workflow.getHandle(workflowIdOf(played.id)).terminate()
  const store = openStore({ postgres: here.stack.databaseUrl, namespace: here.stack.namespace, migrate: 'off' })
  expect(await store.upkeep.erase({ sessionId: played.id, by: 'ann', executions: [] })).not.toBeNull()
  await store.close()
  await approve(clerk)
  await until('the helper has told nobody', async () => {
    const told = ofType(await eventsOf(here.pawl.session(helper)), 'caller_told')
    return told.length === 1 && told[0]?.delivered === false
  })
  const executions = here.temporal.workflow.list({ query: `WorkflowId = "${workflowIdOf(played.id)}"` })
  for await (const { status } of executions) expect(status.name).toBe('TERMINATED')
})
