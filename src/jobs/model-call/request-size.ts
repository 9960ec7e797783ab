// Whether a request fits into its model's window. It is measured before it is sent; a refusal by the provider settles the question.
import type { TooLarge } from '../../calls/activities.ts'
import type { Agent } from '../../agent/agent.ts'
import { isContextWindow } from '../../agent/context-windows.ts'
import { isModelError } from '../../agent/errors.ts'
import type { Model, ModelRequest } from '../../agent/model.ts'
import type { Logger } from '../../agent/tool.ts'
import { bytesBesides, bytesOfRequest, chooseCut, isDue, mayForce, requestTokens } from '../../session/transcript/compaction.ts'
import type { Transcript } from '../../session/transcript/transcript.ts'
import { ModelFailure } from './ask-model.ts'
import { failedAttempt } from '../attempt.ts'
import type { AttemptSoFar } from '../../session/attempts.ts'

/** The conversation must be compacted before the model is asked again. */
export class CompactionDue extends Error {
  readonly tooLarge: TooLarge

  constructor(tooLarge: TooLarge) {
    super('The conversation is to be compacted.')
    this.tooLarge = tooLarge
  }
}

export interface RequestSize {
  /** Checks the request before it is sent to a model. @throws CompactionDue. */
  check(model: Model): void
  /** Whether a compaction that a refusal forces may shorten the request. */
  mayCompact(): boolean
  /** Records a provider's refusal as a failed attempt if a compaction may help. @throws CompactionDue. */
  unlessRefused<T>(worker: string, attempt: AttemptSoFar, ask: () => Promise<T>): Promise<T>
}

/** A refused request shrinks by this factor if neither its size nor the window is known. */
const UNKNOWN_WINDOW = 0.75
/** A refused request has more tokens than the window, whatever the estimate was. */
const OVER = 1.05

/** Whatever can be cut is cut for this. */
const NO_ROOM = { bytes: 0, besides: 0, window: 1 }

/** Agents for which this process has already logged a warning. */
const warned = new Set<string>()
const UNKNOWN =
  'the window of a model is unknown, so conversations are compacted only when its provider refuses a request. Declare its contextWindow.'

/** Sizes a request of the agent. `volatile`: the text of its sections. */
export function sizing(
  { name, compaction }: Agent,
  transcript: Transcript,
  { system, tools, run, turn }: ModelRequest,
  { volatile, log }: { volatile: string; log: Logger },
): RequestSize {
  if (!compaction) return { check: () => undefined, mayCompact: () => false, unlessRefused: (_worker, _attempt, ask) => ask() }
  let window: number | undefined
  const besides = (): number => bytesBesides(system, tools, [volatile, ...transcript.systemMessages])
  const tooLarge = (tokens: number, size: number): TooLarge => {
    const others = besides()
    return { tokens, bytes: bytesOfRequest(transcript, others), besides: others, window: size }
  }
  return {
    check(model) {
      window = windowOf(model)
      if (window === undefined) {
        if (warned.has(name)) return
        warned.add(name)
        log.warn({ agent: name, model: model.name }, UNKNOWN)
        return
      }
      const tokens = requestTokens(transcript, besides)
      if (isDue(transcript, compaction, { run, turn, tokens, window })) throw new CompactionDue(tooLarge(tokens, window))
    },
    mayCompact: () => mayForce(transcript, { run, turn }) && chooseCut(transcript, compaction.keepTurns, NO_ROOM) !== undefined,
    async unlessRefused(worker, attempt, ask) {
      try {
        return await ask()
      } catch (error) {
        const refused = error instanceof ModelFailure ? error : undefined
        if (!refused || !isOverflow(refused.cause) || !mayForce(transcript, { run, turn })) throw error
        const about = { retryable: true, nextDelayMs: 0, worker, ...refused.call }
        attempt.failed.push(failedAttempt(attempt.number, refused.cause, about))
        const estimate = requestTokens(transcript, besides)
        const size = window ?? Math.ceil(estimate * UNKNOWN_WINDOW)
        throw new CompactionDue({ ...tooLarge(Math.max(estimate, Math.ceil(size * OVER)), size), forced: true })
      }
    },
  }
}

/** Whether the provider reports that the request exceeds the model's window. */
export function isOverflow(error: unknown): boolean {
  return isModelError(error) && error.code === 'context_overflow'
}

/** The model's context window. A Model is user code: undefined if it declares no window or an invalid one. */
export function windowOf({ contextWindow }: Model): number | undefined {
  return isContextWindow(contextWindow) ? contextWindow : undefined
}
