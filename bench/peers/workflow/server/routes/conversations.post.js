// Carries out a conversation, and answers when it is over.
import { start } from 'workflow/api'
import { conversation } from '../../workflows/conversation.js'

/** The body is the JSON of the conversation. */
export default async function converse(event) {
  const run = await start(conversation, [JSON.parse(await event.req.text())])
  await run.returnValue
  return { done: true }
}
