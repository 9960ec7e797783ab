// `pawl/activities`: what the worker of your own workflows needs so that they can ask agents.
import { ApplicationFailure, CancelledFailure, Context } from '@temporalio/activity'
import type { Pawl } from '../client/pawl.ts'
import { InvalidMessageError, MessageRejectedError, RequestRefusedError, RunFailedError, RunInterruptedError } from '../client/errors.ts'
import type { RunHandle, RunResult, SessionHandle } from '../client/types.ts'
import { InvalidOptionError } from '../options/errors.ts'
import { defined } from '../session/defined.ts'
import type { PawlError } from '../session/errors.ts'
import { jsonBytes } from '../session/json.ts'
import { numberText } from '../session/number-text.ts'
import { cutText, TEXT_BYTES } from '../session/protocol/texts.ts'
import type { SessionView } from '../session/watching/view.ts'
import { ACTIVITY, type Question } from './contract.ts'

/** The activities, for `Worker.create({ activities })`. */
export type AgentActivities = Record<typeof ACTIVITY, (question: Question) => Promise<RunResult>>

const BEAT_MS = 2_000
/** A cancelled activity is answered within this time, even if the run takes longer to end. */
const INTERRUPTED_MS = 30_000
const DETAILS = 'The details of this failure say why.'
/** The same message would be refused again. */
const REFUSALS = [MessageRejectedError, InvalidMessageError, InvalidOptionError, RequestRefusedError]
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
  const { agent, session: id, messageId, message, context, tags, metadata, deadline, taskQueue } = question
  // The id of a workflow may be longer than what an event says of it.
  const by = cutText(question.by, TEXT_BYTES.by)
  const activity = Context.current()
  const { cancellationSignal: signal } = activity
  const beating = setInterval(() => activity.heartbeat(), BEAT_MS)
  try {
    const session = pawl.session(id, { agent, ...defined({ context, tags, taskQueue }) } as never)
    const run = await session.send(message as string, { messageId, by, ...defined({ metadata, deadline }) })
    try {
      return checked(id, (await run.result({ signal })) as RunResult)
    } catch (error) {
      if (signal.aborted && isUnwanted(signal)) await interruptRun(session, run, by).catch(() => undefined)
      throw error
    }
  } catch (error) {
    throw signal.aborted ? signal.reason : failureOf(id, error)
  } finally {
    clearInterval(beating)
  }
}

/**
 * Interrupts the message's run, and waits for its end. If another caller's run is in progress, it first waits until that has ended,
 * and leaves it alone if it has taken the message.
 */
async function interruptRun(session: SessionHandle, run: RunHandle, by: string): Promise<void> {
  const waiting = AbortSignal.timeout(INTERRUPTED_MS)
  const stop = (): Promise<void> => session.interrupt({ by, reason: 'the workflow that asked no longer waits' })
  const current = await currentRun(session)
  if (!current || current.messageId === run.messageId) await stop()
  for await (const event of run.events({ signal: waiting })) {
    if (event.type !== 'run_started' || event.messageId !== run.messageId || current?.messageId === run.messageId) continue
    if ((await currentRun(session))?.run === event.run) await stop()
  }
}

/** The run in progress; null if there is none, or if no worker says: an interrupt then waits with the message. */
async function currentRun(session: SessionHandle): Promise<SessionView['current']> {
  const state = await session.state().catch(() => null)
  return state?.current ?? null
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

/**
 * What a repetition would not change becomes a failure that is not repeated; anything else, such as a server that is away, may pass. Reasons
 * may quote what users, models and tools have written: they are in the details, which pass the workflow's converter, and not in the message.
 */
function failureOf(session: string, error: unknown): unknown {
  if (error instanceof RunFailedError) {
    const { run, code, reason, strategy } = error
    const text = `The run of the message failed: ${code}. ${DETAILS}`
    return ApplicationFailure.nonRetryable(text, 'run_failed', { session, code, reason, strategy, ...defined({ run }) })
  }
  if (error instanceof RunInterruptedError) {
    const { run, code, reason } = error
    return ApplicationFailure.nonRetryable(`Run ${run} was interrupted. ${DETAILS}`, code, { session, code, run, ...defined({ reason }) })
  }
  if (REFUSALS.some((refusal) => error instanceof refusal)) {
    const { code, message: reason } = error as PawlError
    return ApplicationFailure.nonRetryable(`The message was refused: ${code}. ${DETAILS}`, 'message_rejected', { session, code, reason })
  }
  return error
}
