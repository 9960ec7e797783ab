// Carries tasks out through pawl, several sessions at a time, and collects what their transcripts say.
import { setTimeout as sleep } from 'node:timers/promises'
import type { SessionHandle } from '../../src/client/types.ts'
import { textOf } from '../../src/session/content.ts'
import type { MessageRow } from '../../src/store/rows.ts'
import { requestFor } from './script.ts'
import type { Task } from './workload.ts'

/** The outcome of a session's task. */
export interface Outcome {
  task: Task
  answer: string
  /** Texts of the tool results, in the transcript's order. */
  results: string[]
}

/** Opens the session of a task. */
export type OpenSession = (task: Task) => SessionHandle

/** Carries out all tasks, `atATime` of them in parallel; outcomes are in the tasks' order. */
export async function carryOutTasks(tasks: readonly Task[], atATime: number, open: OpenSession): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  const queue = [...tasks.entries()]
  const serve = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) outcomes[next[0]] = await carryOut(next[1], open(next[1]))
  }
  await Promise.all(Array.from({ length: atATime }, serve))
  return outcomes
}

async function carryOut(task: Task, session: SessionHandle): Promise<Outcome> {
  const run = await session.send(requestFor(task), { isNew: true })
  const { text } = await run.result({ timeout: 300_000 })
  return { task, answer: text, results: resultsIn(await storedMessages(session)) }
}

/** A flush may die with its worker a few times in a row, and each time it is retried only after the heartbeat timeout. */
const STORE_MS = 90_000

/** The whole transcript: the store follows the run, and its last message is the model's answer. */
async function storedMessages(session: SessionHandle): Promise<MessageRow[]> {
  const giveUpAt = Date.now() + STORE_MS
  for (;;) {
    const messages = await session.messages()
    const last = messages.at(-1)
    if (last?.kind === 'assistant' && !(last.content as { type: string }[]).some((block) => block.type === 'tool_use')) return messages
    if (Date.now() > giveUpAt)
      throw new Error(`The answer of ${session.id} is not in the side store ${STORE_MS / 1_000} s after its run ended.`)
    await sleep(50)
  }
}

function resultsIn(messages: readonly MessageRow[]): string[] {
  return messages.flatMap(({ content }) =>
    typeof content === 'string' ? [] : content.flatMap((block) => (block.type === 'tool_result' ? [textOf(block.content)] : [])),
  )
}
