// Questions of tools to the user, as a chat in a terminal shows them.
import type { CallQuestion } from '../../session/question-facts.ts'
import { oneLine } from '../terminal.ts'

const MAX_SCHEMA = 500

/** The question, who asks it, and how to answer. */
export function questionLine(callId: string, { from, message, schema, url }: CallQuestion): string {
  const where =
    url === undefined ? `Fields: ${oneLine(JSON.stringify(schema?.properties ?? {}), MAX_SCHEMA)}` : `Open ${oneLine(url, 2_000)}`
  const how = url === undefined ? '{"action":"accept","content":{…}}' : '{"action":"accept"}'
  return `  ⏸ ${from} asks: ${oneLine(message, MAX_SCHEMA)} ${where} (/answer ${callId} ${how}, or "decline" or "cancel" as the action)`
}
