// An agent that plans a report of three chapters and writes them, slowly, to the file that BOOK names.
import { appendFile, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineAgent, defineTool, type AssistantBlock } from 'pawl'
import { scripted } from 'pawl/testing'
import { z } from 'zod'

const CHAPTERS = ['Lamps', 'Bulbs', 'Shades']
const book = process.env.BOOK ?? 'book.txt'

const writeChapter = defineTool({
  name: 'write_chapter',
  description: 'Write a chapter of the report.',
  input: z.object({ title: z.string() }),
  effect: 'external', // nothing protects the file from a second line
  execute: async ({ title }, ctx) => {
    await appendFile(book, `${title} ${ctx.idempotencyKey}\n`)
    await sleep(2_000, undefined, { signal: ctx.signal })
    return `wrote ${title}`
  },
  verify: async ({ title }, ctx) => {
    const written = await readFile(book, 'utf8').catch(() => '')
    return written.includes(ctx.idempotencyKey) ? { happened: true, result: `wrote ${title}` } : { happened: false }
  },
})

/** Plans, then writes a chapter and marks it done, until all are. What it has said so far tells it where it is. */
const author = scripted(({ messages }) => {
  const asked = messages.filter(({ role }) => role === 'assistant').length
  if (asked === 0) {
    const steps = CHAPTERS.map((title) => ({ id: title.toLowerCase(), title: `Write ${title}` }))
    return [use('plan_setup', { objective: 'A report about lamps', steps })]
  }
  const title = CHAPTERS[Math.floor((asked - 1) / 2)]
  if (title === undefined) return 'The report has three chapters.'
  if (asked % 2 === 1) return [use('write_chapter', { title })]
  return [use('plan_update_step', { id: title.toLowerCase(), status: 'done', evidence: `${title} is in the file` })]
})

function use(name: string, input: AssistantInput): AssistantBlock {
  return { type: 'tool_use', id: `toolu_${name}`, name, input }
}

type AssistantInput = Extract<AssistantBlock, { type: 'tool_use' }>['input']

export default defineAgent({ name: 'author', instructions: 'Write reports.', model: author, tools: [writeChapter], plan: true })
