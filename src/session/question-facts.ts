// What a session knows of a question that a tool asks the user during a call.
import type { JsonObject } from './json.ts'

/** What the tool of a call asks the user. */
export interface CallQuestion {
  /** Names it among the questions of its call. */
  id: string
  /** Who asks: the name of the MCP server. */
  from: string
  /** The question, in the words of whoever asks. */
  message: string
  /** JSON Schema of the content of an answer, an object of texts, numbers, booleans and choices. Absent: the user opens `url`. */
  schema?: JsonObject
  /** Where the user answers. pawl learns only that the user has been there. */
  url?: string
}

/** The answer to a question: the user answers it, refuses to, or dismisses it without a choice. */
export interface QuestionReply {
  action: 'accept' | 'decline' | 'cancel'
  /** What the question's schema asks for. */
  content?: JsonObject
}

/** What the next attempt of a call gets, once all questions of the attempt before it are answered. */
export interface UserReplies {
  /** The replies by the ids of the questions. */
  replies: Record<string, QuestionReply>
  /** What the server sent with its questions, and gets back unchanged. */
  state?: string
  /** How many times the call has asked so far. */
  rounds: number
}

/** What a call has asked since its newest attempt. */
export interface CallAsking extends UserReplies {
  /** The attempt that asked. */
  attempt: number
  /** The question that waits. */
  question?: CallQuestion
  /** Those that follow, one after another. */
  more: CallQuestion[]
}

/** An `answer_requested` of a question. */
export interface AskedQuestion {
  attempt: number
  question: CallQuestion
  /** Names the question in answers. */
  digest: string
  more?: CallQuestion[]
  /** In the first question of an attempt. */
  state?: string
}
