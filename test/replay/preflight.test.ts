// A preflight of the kept histories: this build can continue all of them, and the preflight detects a history that it could not continue.
import { defaultPayloadConverter, type LoadedDataConverter } from '@temporalio/common'
import { DefaultFailureConverter } from '@temporalio/common/lib/converter/failure-converter.js'
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js'
import { ThreadedVMWorkflowCreator } from '@temporalio/worker/lib/workflow/threaded-vm.js'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import type { SessionEvent } from '../../src/session/events.ts'
import { fold } from '../../src/session/fold/fold.ts'
import { problemOf } from '../../src/worker/preflight/differences.ts'
import type { OpenExecution } from '../../src/worker/preflight/open-sessions.ts'
import { readRecorded } from '../../src/worker/preflight/recorded.ts'
import { quietReplays, replayEach } from '../../src/worker/preflight/replaying.ts'
import { openCallsOf, replayedSessionOf } from '../../src/worker/preflight/replayed-session.ts'
import type { PreflightProblem } from '../../src/worker/preflight-report.ts'
import type { ReplayedSession } from '../../src/worker/protocol.ts'
import { type KeptExecution, keptSessions } from './recording/kept.ts'
import { BUILT } from './replay.ts'

const sessions = keptSessions()

/** An execution, and all events of the session up to its end. */
interface ReplayCase {
  name: string
  open: OpenExecution
  events: SessionEvent[]
}

const executions = sessions.flatMap(({ name, workflowId, executions: all }) => {
  const bySeq = new Map<number, SessionEvent>()
  return all.map((execution, index): ReplayCase => {
    for (const event of execution.events) bySeq.set(event.seq, event)
    return { name: `${name} ${index + 1}`, open: openedAs(workflowId, execution), events: [...bySeq.values()] }
  })
})

function openedAs(workflowId: string, { executionId, history }: Pick<KeptExecution, 'executionId' | 'history'>): OpenExecution {
  return { workflowId, executionId, history: historyFromJSON(history) }
}

const converter: LoadedDataConverter = {
  payloadConverter: defaultPayloadConverter,
  failureConverter: new DefaultFailureConverter(),
  payloadCodecs: [],
}

interface CheckResult {
  problem: PreflightProblem | undefined
  session: ReplayedSession | undefined
}

beforeAll(quietReplays)

async function check(opened: readonly OpenExecution[]): Promise<CheckResult[]> {
  const found: CheckResult[] = []
  const queue = opened[Symbol.iterator]()
  const next = async (): Promise<OpenExecution | undefined> => queue.next().value as OpenExecution | undefined
  await replayEach(BUILT, 'default', next, async ({ history }, replayed) => {
    const recorded = await readRecorded(history, converter)
    found.push({ problem: problemOf(history, recorded, replayed), session: replayedSessionOf(recorded, replayed.entries) })
  })
  return found
}

it('the steps of an activation have no timeout of their own, because each one costs a thread', async () => {
  const created = vi.spyOn(ThreadedVMWorkflowCreator, 'create')
  await check(executions.slice(0, 1).map(({ open }) => open))
  expect(created.mock.calls.map(([options]) => options.isolateExecutionTimeoutMs)).toEqual([undefined])
})

describe('the kept histories', () => {
  let found: CheckResult[]

  beforeAll(async () => {
    found = await check(executions.map(({ open }) => open))
  })

  it('the kept histories can all be continued', () => {
    expect(found).toHaveLength(executions.length)
    expect(executions.flatMap(({ name }, index) => (found[index]?.problem ? [{ name, ...found[index].problem }] : []))).toEqual([])
  })

  it('the kept histories report the agent and the open calls of the session at their end', () => {
    let calls = 0
    for (const [index, { name, events }] of executions.entries()) {
      // A fork begins with the events of another session.
      if (events[0]?.type !== 'session_started') continue
      const state = fold(undefined, events) ?? expect.fail('no state')
      const expected = openCallsOf(state)
      calls += expected.length
      expect(found[index]?.session, name).toEqual({ agent: state.agent, context: state.context, calls: expected })
    }
    expect(calls).toBeGreaterThan(0)
  })
})

describe('a history that this build cannot continue', () => {
  /** The session `effects`, with its history changed in one place. */
  function tampered(change: (history: string) => string, name = 'effects'): OpenExecution {
    const { workflowId, executions } = sessions.find((session) => session.name === name) ?? expect.fail('no such session')
    const execution = executions.at(-1) as KeptExecution
    const before = JSON.stringify(execution.history)
    const after = change(before)
    expect(after).not.toBe(before)
    return openedAs(workflowId, { ...execution, history: JSON.parse(after) as KeptExecution['history'] })
  }

  const payloads = (history: string, change: (text: string) => string): string =>
    history.replaceAll(/"data":"([^"]+)"/g, (_, data: string) => {
      const text = change(Buffer.from(data, 'base64').toString())
      return `"data":"${Buffer.from(text).toString('base64')}"`
    })

  it('a preflight reports the history event at which the workflow code would issue other commands', async () => {
    const other = tampered((history) => history.replace('"activityType":{"name":"executeTool"}', '"activityType":{"name":"verifyTool"}'))
    const [found] = await check([other])
    expect(found?.problem).toMatchObject({
      code: 'other_commands',
      message: expect.stringMatching(/after history event \d+: .*verifyTool/),
    })
  })

  it('a preflight reports session events that would differ, a difference that Temporal does not notice', async () => {
    const other = tampered((history) => payloads(history, (text) => text.replace('"value":"a done"', '"value":"x done"')))
    const [found] = await check([other])
    const { events } = executions.find(({ name }) => name === 'effects 1') ?? expect.fail('no such session')
    const changed = events.find((event) => event.type === 'tool_completed' && event.value === 'a done')?.seq ?? 0
    const { code, historyEvent, fromSeq = 0, toSeq = 0, message } = found?.problem ?? expect.fail('no problem')
    expect({ code, message }).toEqual({ code: 'other_events', message: expect.stringContaining(`history event ${historyEvent}`) })
    expect(fromSeq).toBeLessThanOrEqual(changed)
    expect(toSeq).toBeGreaterThanOrEqual(changed)
  })

  it('a history that this build cannot continue is reported if a newer release began the execution', async () => {
    const newer = tampered(
      (history) => payloads(history, (text) => text.replace('"coreVersion":1,"state"', '"coreVersion":99,"state"')),
      'long',
    )
    const [found] = await check([newer])
    expect(found?.problem).toMatchObject({ code: 'core_too_new', message: expect.stringContaining('core 99') })
  })

  it('a history that this build cannot continue does not stop the preflight from checking the others', async () => {
    const broken = tampered((history) => history.replace('"activityType":{"name":"executeTool"}', '"activityType":{"name":"verifyTool"}'))
    const sound = executions[0]?.open ?? expect.fail('no history')
    const found = await check([sound, broken, sound, broken, sound])
    expect(found.map(({ problem }) => problem?.code)).toEqual([undefined, 'other_commands', undefined, 'other_commands', undefined])
  })
})
