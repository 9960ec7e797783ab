// What a body has done although its attempt was given up meanwhile: told to the workflow by a signal.
import type { Client } from '@temporalio/client'
import type { ExecuteToolInput, ExecuteToolResult } from '../../activities/contract.ts'
import type { Logger } from '../../agent/tool.ts'
import { callIdOf } from '../../session/events.ts'
import { type LateResultSignal, SIGNALS } from '../../session/protocol.ts'
import { defined } from '../../session/defined.ts'

/** An activity that the server gave up, and what it would have answered. */
export interface GivenUp {
  activity: string
  workflowId: string
  input: unknown
  result: unknown
}

/** The result of an `external` body that has had its effect; undefined for anything else, which the workflow settles without it. */
export function effectIn({ activity, input, result }: GivenUp): LateResultSignal | undefined {
  if (activity !== 'executeTool') return undefined
  const { kind } = result as ExecuteToolResult
  const { run, turn, resolution } = input as ExecuteToolInput
  if (kind !== 'completed' || resolution.effect !== 'external') return undefined
  const { attempt, startedAt, worker, value, content, blob, effectId } = result as ExecuteToolResult & { kind: 'completed' }
  return {
    callId: callIdOf(run, turn, resolution.index),
    attempt,
    startedAt,
    worker,
    ...defined({ value, content, blob, effectId }),
  }
}

/** Tells the workflow, if there is something to tell. Never rejects: `verify`, or a person, will be asked then. */
export async function tellLateResult(client: Client, givenUp: GivenUp, logger: Logger): Promise<void> {
  const effect = effectIn(givenUp)
  if (!effect) return
  const { workflowId } = givenUp
  try {
    await client.workflow.getHandle(workflowId).signal(SIGNALS.lateResult, effect)
  } catch (err) {
    logger.warn({ err, workflowId, callId: effect.callId }, 'the late result of a call could not be told to its session')
  }
}
