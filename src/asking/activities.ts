// `pawl/activities`: what the worker of your own workflows needs so that they can ask agents.
import { ApplicationFailure, CancelledFailure, Context } from '@temporalio/activity'
import type { Pawl } from '../client/pawl.ts'
import { InvalidMessageError, MessageRejectedError, RunFailedError, RunInterruptedError } from '../client/errors.ts'
import type { RunResult } from '../client/types.ts'
import { InvalidOptionError } from '../options/errors.ts'
import { defined } from '../session/defined.ts'
import { jsonBytes } from '../session/json.ts'
import { numberText } from '../session/number-text.ts'
import { ACTIVITY, type Question } from './contract.ts'

/** The activities, for `Worker.create({ activities })`. */
export type AgentActivities = Record<typeof ACTIVITY, (question: Question) => Promise<RunResult>>

const BEAT_MS = 2_000
/** A cancelled activity is answered within this time, even if the run takes longer to end. */
const INTERRUPTED_MS = 30_000
/** Temporal refuses results from 2 MB on. */
const MAX_RESULT_BYTES = 1_900_000

/**
 * The activity behind `askAgent` of `pawl/workflow`. It sends the message and waits; if its worker dies, another attempt waits for the same
 * run. Each question in progress occupies one of the worker's slots for activities.
 */
export function agentActivities(pawl: Pick<Pawl, 'session'>): AgentActivities {
  return { [ACTIVITY]: (question) => ask(pawl, question) }
}

async function ask(pawl: Pick<Pawl, 'session'>, question: Question): Promise<RunResult> {
  const { agent, session: id, messageId, message, context, tags, metadata, deadline, taskQueue, by } = question
  const activity = Context.current()
  const { cancellationSignal: signal } = activity
  const beating = setInterval(() => activity.heartbeat(), BEAT_MS)
  try {
    const session = pawl.session(id, { agent, ...defined({ context, tags, taskQueue }) } as never)
    const run = await session.send(message as string, { messageId, by, ...defined({ metadata, deadline }) })
    try {
      return checked(id, (await run.result({ signal })) as RunResult)
    } catch (error) {
      if (signal.aborted && isUnwanted(signal)) {
        await session.interrupt({ by, reason: 'the workflow that asked no longer waits' })
        await run.settled({ timeout: INTERRUPTED_MS }).catch(() => undefined)
      }
      throw error
    }
  } catch (error) {
    throw signal.aborted ? signal.reason : failureOf(id, error)
  } finally {
    clearInterval(beating)
  }
}

/** Whether nobody wants the answer any more. Otherwise, such as when the worker shuts down, another attempt waits for it. */
function isUnwanted({ reason }: AbortSignal): boolean {
  return reason instanceof CancelledFailure && ['CANCELLED', 'NOT_FOUND'].includes(reason.message)
}

function checked(session: string, result: RunResult): RunResult {
  const bytes = jsonBytes(result)
  if (bytes <= MAX_RESULT_BYTES) return result
  const text = `The answer has ${numberText(bytes)} bytes, and a workflow can receive ${numberText(MAX_RESULT_BYTES)}. Read it from the session "${session}".`
  throw ApplicationFailure.nonRetryable(text, 'result_too_large', { session, run: result.run })
}

/** What a repetition would not change becomes a failure that is not repeated; anything else, such as a server that is away, may pass. */
function failureOf(session: string, error: unknown): unknown {
  const { message } = error as Error
  if (error instanceof RunFailedError) {
    const { run, code, reason, strategy } = error
    return ApplicationFailure.nonRetryable(message, 'run_failed', { session, code, reason, strategy, ...defined({ run }) })
  }
  if (error instanceof RunInterruptedError) {
    const { run, code, reason } = error
    return ApplicationFailure.nonRetryable(message, code, { session, code, run, ...defined({ reason }) })
  }
  if (error instanceof MessageRejectedError || error instanceof InvalidMessageError || error instanceof InvalidOptionError) {
    return ApplicationFailure.nonRetryable(message, 'message_rejected', { session, code: error.code, reason: message })
  }
  return error
}
