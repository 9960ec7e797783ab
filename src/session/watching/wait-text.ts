// What a session waits for, as a phrase.
import type { SessionWait } from './waits.ts'

const WHO: Record<SessionWait['for'], string> = {
  agent: 'the agent',
  person: 'a person',
  client: 'a client',
  worker: 'a worker',
  postgres: 'Postgres',
  model: 'the model',
  tool: 'the tool',
  next_attempt: 'its next attempt',
  verification: 'the verification of',
  gate: 'the rate gate',
  limit: 'a limit of',
  message: 'a message',
  time: 'a message or the time of',
}

const WHAT: Record<NonNullable<SessionWait['to']>, string> = {
  recover: 'to recover the run',
  resolve: 'to resolve the unknown outcome of',
  approve: 'to approve or deny',
  answer: 'to answer',
  resume: 'to reopen it: its workflow has ended during the run',
  unpause: 'to unpause it',
  raise: 'to raise its budget',
}

/** Such as `a person to approve or deny refund_order (t_1_1_0)`. A reason that names whom the session waits for replaces the name. */
export function waitPhrase({ for: who, to, callId, tool, account, reason }: Omit<SessionWait, 'since' | 'until' | 'raise'>): string {
  const about = [to && WHAT[to], callId && `${tool} (${callId})`, account && `of the account "${account}"`].filter(Boolean).join(' ')
  return [...(reason?.startsWith(WHO[who]) ? [] : [WHO[who]]), about].filter(Boolean).join(' ')
}
