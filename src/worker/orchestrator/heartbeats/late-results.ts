// Signals the result of a body to its workflow if the server has given up on the attempt.
import { type Client, WorkflowNotFoundError } from '@temporalio/client'
import type { CallModelResult, ExecuteToolInput, ExecuteToolResult } from '../../../calls/activities.ts'
import type { Logger } from '../../../agent/tool.ts'
import { callIdOf } from '../../../session/ids.ts'
import { type LateResultSignal, sessionIdOf, SIGNALS } from '../../../session/protocol/protocol.ts'
import { defined } from '../../../session/defined.ts'
import { offer } from './offering.ts'

/** An activity that the server has given up on, and its result. */
export interface LateResult {
  activity: string
  workflowId: string
  input: unknown
  result: unknown
}

/** The result of an `external` body that took effect; undefined otherwise, because the workflow settles those calls by itself. */
export function effectIn({ activity, input, result }: LateResult): LateResultSignal | undefined {
  const { run, turn } = input as Pick<ExecuteToolInput, 'run' | 'turn'>
  if (activity === 'callModel') {
    const { calls = [], rides = [] } = result as Partial<CallModelResult & { kind: 'completed' }>
    const [ride] = rides
    const resolution = calls.find(({ index }) => index === ride?.index)
    return ride && resolution && effectOf({ run, turn, resolution }, ride.result)
  }
  return activity === 'executeTool' ? effectOf(input as ExecuteToolInput, result as ExecuteToolResult) : undefined
}

function effectOf(
  { run, turn, resolution }: Pick<ExecuteToolInput, 'run' | 'turn' | 'resolution'>,
  result: ExecuteToolResult,
): LateResultSignal | undefined {
  if (result.kind !== 'completed' || resolution.effect !== 'external') return undefined
  const { attempt, startedAt, worker, value, content, blob, effectId, emitted, spent } = result
  return {
    callId: callIdOf(run, turn, resolution.index, resolution.generation),
    attempt,
    startedAt,
    worker,
    ...defined({ value, content, blob, effectId, emitted, spent }),
  }
}

/** Signals the workflow if there is such a result. Never rejects: without the signal, `verify` or a person resolves the call. */
export async function signalLateResult(client: Client, late: LateResult, logger: Logger): Promise<void> {
  const effect = effectIn(late)
  if (!effect) return
  const { workflowId } = late
  try {
    const { workflow } = client
    // The server may be lost again. A session that has ended gets the result no more.
    await offer(client, () =>
      workflow
        .getHandle(workflowId)
        .signal(SIGNALS.lateResult, effect)
        .catch((err: unknown) => {
          if (!(err instanceof WorkflowNotFoundError)) throw err
          logger.warn({ err, session: sessionIdOf(workflowId), call: effect.callId }, NOT_SENT)
        }),
    )
  } catch (err) {
    logger.warn({ err, session: sessionIdOf(workflowId), call: effect.callId }, NOT_SENT)
  }
}

const NOT_SENT = 'the late result of a call could not be sent to its session'
