// How a job ended, as data.
import { TryAgain } from '../../calls/errors.ts'
import { type JobKind, type JobOrder, type JobOutcome, nameOfSubject } from '../../calls/jobs.ts'
import type { Logger } from '../../agent/tool.ts'
import { stackOf } from '../../jobs/stack.ts'
import { beginningOf } from '../../session/beginning.ts'
import { defined } from '../../session/defined.ts'
import { PawlError } from '../../session/errors.ts'

export async function outcomeOf(onThrown: (error: unknown) => void, work: () => Promise<unknown>): Promise<JobOutcome> {
  try {
    return { kind: 'answered', result: await work() }
  } catch (error) {
    if (error instanceof TryAgain) {
      const { type, message, afterMs, failed } = error
      return { kind: 'again', type, message, afterMs, ...(failed && { failed }) }
    }
    onThrown(error)
    return threw(error)
  }
}

const MAX_TEXT = 4_000

/** Any value may be thrown, even one that throws when it is read. */
function threw(error: unknown): JobOutcome {
  return { kind: 'threw', ...textsOf(error), ...defined({ stack: stackOf(error)?.text }) }
}

function textsOf(error: unknown): { type: string; message: string } {
  try {
    if (!(error instanceof Error)) return { type: typeof error, message: beginningOf(String(error), MAX_TEXT) }
    const { name, message } = error
    return { type: beginningOf(String(name), MAX_TEXT), message: beginningOf(String(message), MAX_TEXT) }
  } catch {
    return { type: 'Error', message: 'The code threw a value that cannot be converted to text.' }
  }
}

/** Logs the whole error, because the workflow gets only its message. A stop is not logged, because it is not a failure. */
export function logThrown(
  logger: Logger,
  { kind, ticket: { sessionId: session, subject } }: JobOrder,
  stop: AbortSignal,
  error: unknown,
): void {
  if (stop.aborted || (error instanceof PawlError && !stackOf(error)?.hasOwn)) return
  const about = 'tool' in subject ? { call: nameOfSubject(subject), tool: subject.tool } : {}
  logger.warn({ session, ...about, err: error }, `${STEPS[kind]} failed with an exception`)
}

const STEPS: Record<JobKind, string> = {
  callModel: 'a model call',
  compact: 'a compaction',
  executeTool: 'a tool call',
  verifyTool: 'verify',
  resolveTool: 'the check of a call',
  checkAnswer: "the check of a client's answer",
  endHooks: "a run's last hooks",
}
