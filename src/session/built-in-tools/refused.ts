// Shared code of pawl's own tools, which check arguments by hand, because the workflow has no zod, and may refuse a call.
import { isObject, type Json, type JsonObject } from '../json.ts'

/** Thrown for a call that changes nothing. The model is told why. */
export class Refused extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** What the model is told about a refused call. */
export interface CallProblem {
  problem: { code: string; message: string }
}

/** Returns what `answer` returns, or why it refuses the call. */
export function unlessRefused<T>(answer: () => T): T | CallProblem {
  try {
    return answer()
  } catch (error) {
    if (error instanceof Refused) return { problem: { code: error.code, message: error.message } }
    throw error
  }
}

export function refuse(code: string, message: string): never {
  throw new Refused(code, message)
}

/** The refusal of arguments that do not match the tool's schema. */
export function invalid(message: string): Refused {
  return new Refused('invalid_arguments', message)
}

/** The arguments of a call. @throws Refused. */
export function argumentsIn(input: Json): JsonObject {
  if (isObject(input)) return input
  throw invalid('The arguments must be a JSON object.')
}
