// How a tool's body asks the user: it ends with the questions, and the next attempt gets the replies. Only adapters of tools use it.
import type { CallQuestion, UserReplies } from '../session/question-facts.ts'

/** Thrown by a body that can continue only after the user has answered. Nothing has been done yet. */
export class AsksUser extends Error {
  override readonly name = 'AsksUser'
  readonly questions: readonly CallQuestion[]
  /** What the body needs beside the replies. */
  readonly state: string | undefined

  constructor(questions: readonly CallQuestion[], state?: string) {
    super('The tool asks the user a question.')
    this.questions = questions
    this.state = state
  }
}

/** Whether it is an `AsksUser`, even one from another copy of pawl in the same process. */
export function isAsking(error: unknown): error is AsksUser {
  try {
    return error instanceof Error && error.name === 'AsksUser' && 'questions' in error
  } catch {
    // What users throw may refuse to be looked at.
    return false
  }
}

const REPLIES = Symbol.for('pawl.replies')

/** The context of an attempt that follows the user's replies. */
export function withReplies<C extends object>(ctx: C, replies: UserReplies | undefined): C {
  return replies ? { ...ctx, [REPLIES]: replies } : ctx
}

/** The user's replies to what earlier attempts of the call have asked; undefined if they have asked nothing. */
export function repliesIn(ctx: object): UserReplies | undefined {
  return (ctx as { [REPLIES]?: UserReplies })[REPLIES]
}
