// Answers an executor's requests during a job: permission to enter a body, and data from a session's past.
import type { ContextRules, EarlierKeys, ShareAnswer, ValueStore } from '../../../calls/reads.ts'
import type { Client } from '@temporalio/client'
import type { SessionReader } from '../../../activities/session-reader.ts'
import { AttemptLost } from '../../../calls/errors.ts'
import { PawlError } from '../../../session/errors.ts'
import type { Ask, Answers, FromExecutor } from '../../protocol.ts'
import type { Executor } from './executor-state.ts'
import type { SharedBudgetKeeper } from '../shared-budgets.ts'
import type { LimitKeeper } from '../call-limits.ts'
import type { GateKeeper } from '../rate-gates/gate-keeper.ts'
import type { Ticket } from '../../../calls/jobs.ts'
import { type HistoryEvent, newestFirst } from '../../../connect/histories.ts'

/** Answers one request of an executor. Never rejects. */
export type RequestAnswerer = (executor: Executor, request: FromExecutor & { type: 'request' }) => Promise<void>

/** What answers the requests. */
interface RequestNeeds {
  reader: SessionReader
  values: ValueStore & { earlierKey: EarlierKeys }
  gates: Pick<GateKeeper, 'slotFor'>
  limits: LimitKeeper
  rules: ContextRules
  shared: Pick<SharedBudgetKeeper, 'take' | 'settle'>
  client: Client
}

/** Answers requests with the reader and the store of this orchestrator. */
export function requestsOver({ reader, values, gates, limits, rules, shared, client }: RequestNeeds): RequestAnswerer {
  return async (executor, { request, ask }) => {
    try {
      executor.channel.send({ type: 'answer', request, value: await answer(executor, ask) })
    } catch (error) {
      const code = error instanceof PawlError ? error.code : 'request_failed'
      const message = error instanceof Error ? error.message : String(error)
      executor.channel.send({ type: 'refusal', request, code, message })
    }
  }

  async function takeShare(executor: Executor, { job, of }: Ask & { ask: 'take_share' }): Promise<ShareAnswer> {
    const assignment = executor.assignments.get(job)
    if (!assignment) throw new AttemptLost()
    const answer = await shared.take({ job, sessionId: assignment.order.ticket.sessionId }, of)
    if (executor.assignments.get(job) === assignment) return answer
    // The job's end did not release it.
    if (answer.refused === undefined) shared.settle(answer.token, 0)
    throw new AttemptLost()
  }

  async function answer(executor: Executor, ask: Ask): Promise<Answers[keyof Answers]> {
    switch (ask.ask) {
      case 'begin': {
        // If the job has since been assigned to another executor, its body must not be entered here.
        const assignment = executor.assignments.get(ask.job)
        if (!assignment) throw new AttemptLost()
        await assignment.lease.begin()
        if (executor.assignments.get(ask.job) !== assignment) throw new AttemptLost()
        return true
      }
      case 'ride': {
        const assignment = executor.assignments.get(ask.job)
        if (!assignment) throw new AttemptLost()
        const { lease, order } = assignment
        try {
          const [isAlone] = await Promise.all([hasHeardNothing(client, order.ticket), lease.ride(ask.call)])
          if (executor.assignments.get(ask.job) !== assignment) throw new AttemptLost()
          if (!isAlone) throw new PawlError('not_alone', 'Something has reached the session since it asked the model.')
        } catch (error) {
          lease.leaveRide()
          throw error
        }
        return true
      }
      case 'reserve': {
        const assignment = executor.assignments.get(ask.job)
        if (!assignment) throw new AttemptLost()
        delete assignment.tokensSoFar
        await assignment.lease.reserve(ask.reservation)
        if (executor.assignments.get(ask.job) !== assignment) throw new AttemptLost()
        return true
      }
      case 'still_mine':
        return (await executor.assignments.get(ask.job)?.lease.stillMine()) ?? false
      case 'entries':
        return reader.entries(ask.target, ask.from, client)
      case 'put_value':
        return values.put(ask.sessionId, ask.ref, ask.json, ask)
      case 'gate_slot':
        return gates.slotFor(ask.key, ask.call)
      case 'admit': {
        const { ask: _, ...request } = ask
        return limits.admit(request)
      }
      case 'leave_limits':
        await limits.leave(ask)
        return true
      case 'get_values':
        return values.get(ask.sessionId, ask.refs)
      case 'get_piece':
        return values.piece(ask.sessionId, ask.sha256, ask.from)
      case 'earlier_key':
        return values.earlierKey(ask.sessionId, ask.key)
      case 'take_share':
        return takeShare(executor, ask)
      case 'context_rules':
        return rules(ask.of)
    }
  }
}

/** The newest events are in the first page, unless the session has done much since. */
const PAGE_SIZE = 4
const MAX_EVENTS = 24

/**
 * Whether only the session's own steps are newer than the activity. A pause, for example, must hold up the call that the model requests, and
 * no answer to a heartbeat reports one.
 */
async function hasHeardNothing(
  { workflowService, options: { namespace } }: Client,
  { workflowId, executionId, activityId }: Ticket,
): Promise<boolean> {
  let looked = 0
  for await (const event of newestFirst(workflowService, { namespace, workflowId, executionId }, { pageSize: PAGE_SIZE })) {
    if (event.activityTaskScheduledEventAttributes?.activityId === activityId) return true
    if (!isOwnStep(event) || ++looked > MAX_EVENTS) return false
  }
  return false
}

function isOwnStep(event: HistoryEvent): boolean {
  return OWN_STEPS.some((attributes) => event[attributes] != null)
}

/** What the session's workflow tasks and its other activities leave in history. Anything else may be a request or a deadline. */
const OWN_STEPS = [
  'workflowTaskScheduledEventAttributes',
  'workflowTaskStartedEventAttributes',
  'workflowTaskCompletedEventAttributes',
  'workflowTaskFailedEventAttributes',
  'workflowTaskTimedOutEventAttributes',
  'activityTaskScheduledEventAttributes',
  'activityTaskStartedEventAttributes',
  'activityTaskCompletedEventAttributes',
  'activityTaskFailedEventAttributes',
  'activityTaskTimedOutEventAttributes',
  'markerRecordedEventAttributes',
  'timerStartedEventAttributes',
  'timerCanceledEventAttributes',
  'upsertWorkflowSearchAttributesEventAttributes',
  'workflowPropertiesModifiedEventAttributes',
] as const satisfies (keyof HistoryEvent)[]
