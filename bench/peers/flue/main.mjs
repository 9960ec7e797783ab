// An agent with the built-in SQLite adapter in a file. The variant is the tool's kind: `ordinary`, or `durable` with a `step.do`.
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { fauxAssistantMessage, fauxProvider, fauxText, fauxToolCall } from '@earendil-works/pi-ai/providers/faux'
import { defineTool, init, useModel, useTool } from '@flue/runtime'
import { sqlite, start } from '@flue/runtime/node'
import * as v from 'valibot'
import { ask, fill, serve, setting } from '../program.mjs'

const path = join(setting.folder, 'flue.db')

// One piece per answer: a model that answers at once does not stream.
const faux = fauxProvider({ provider: 'bench', models: [{ id: 'bench' }], tokenSize: { min: 100_000, max: 100_000 } })

function answer({ messages }) {
  faux.appendResponses([answer])
  const content = messages.find(({ role }) => role === 'user').content
  const said = JSON.parse(typeof content === 'string' ? content : content.find(({ type }) => type === 'text').text)
  const turn = 1 + messages.filter(({ role }) => role === 'assistant').length
  const input = ask(said, turn)
  if (!input) return fauxAssistantMessage([fauxText('done')])
  return fauxAssistantMessage([fauxToolCall('fill', input, { id: `toolu_${turn}` })], { stopReason: 'toolUse' })
}
faux.setResponses([answer, answer])

const input = v.object({ id: v.string(), turn: v.number(), hold: v.boolean() })
const about = { name: 'fill', description: 'Answers with filler text.', input }
const tool =
  setting.variant === 'durable'
    ? defineTool({ ...about, durable: true, run: ({ data, step }) => step.do('fill', () => fill(data)) })
    : defineTool({ ...about, run: ({ data }) => fill(data) })

function Bench() {
  useModel('bench/bench')
  useTool(tool)
  return 'Answer.'
}
Bench.durability = { maxAttempts: 10, timeoutMs: 3_600_000 }

const flue = await start({ agents: [{ agent: Bench, name: 'bench' }], db: sqlite(path), providers: [faux.provider] })

await serve(
  async (said) => {
    const before = storedBytes()
    const agent = init(Bench, { id: said.id })
    await agent.read(await agent.dispatch(JSON.stringify(said)))
    return { stored: storedBytes() - before }
  },
  () => flue.stop(),
)

/** Bytes of all values in the database. */
function storedBytes() {
  const db = new DatabaseSync(path, { readOnly: true })
  const tables = db.prepare(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`).all()
  const bytes = tables.map(({ name }) => {
    const columns = db.prepare(`SELECT name FROM pragma_table_info(?)`).all(name)
    const sum = columns.map((column) => `COALESCE(octet_length("${column.name}"), 0)`).join(' + ')
    return db.prepare(`SELECT COALESCE(SUM(${sum}), 0) AS bytes FROM "${name}"`).get().bytes
  })
  db.close()
  return bytes.reduce((sum, one) => sum + one, 0)
}
