// A user's folder for tests of the command line: pawl and zod installed by links, and modules to serve.
import { randomBytes } from 'node:crypto'
import { chmod, mkdir, mkdtemp, realpath, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../../src/local/ports.ts'

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url))

/** An agent that counts the messages it receives, and looks up words with a tool that can be told to take its time. */
const ECHO = `
const wait = (ms, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, ms)
  signal.addEventListener('abort', () => { clearTimeout(timer); reject(signal.reason) })
})
export const lookUp = defineTool({
  name: 'look_up',
  description: 'Looks a word up.',
  input: z.object({ word: z.string(), ms: z.number() }),
  effect: 'read',
  execute: async ({ word, ms }, ctx) => {
    await wait(ms, ctx.signal)
    return \`\${word} is in the book\`
  },
})
export const refund = defineTool({
  name: 'refund',
  description: 'Refunds an order.',
  input: z.object({ order: z.string(), cents: z.number() }),
  effect: 'external',
  approval: ({ cents }) => cents > 100,
  execute: ({ order, cents }) => \`\${order}: \${cents} cents\`,
})
export const pick = defineTool({
  name: 'pick',
  description: 'Asks the user to pick a colour.',
  input: z.object({ question: z.string() }),
  output: z.string(),
  effect: 'read',
  execute: 'client',
})
const blocksOf = (message) => (typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content)
const model = scripted(({ messages }) => {
  const texts = messages.filter((message) => message.role === 'user').flatMap(blocksOf).filter((block) => block.type === 'text')
  const last = blocksOf(messages.at(-1)).at(-1)
  if (last.type === 'tool_result') return \`found: \${JSON.stringify(last.content)}\`
  const [, word, ms] = /^look up (\\w+) for (\\d+) ms$/.exec(last.text) ?? []
  if (last.text === 'pick') return [{ type: 'tool_use', id: 'toolu_3', name: 'pick', input: { question: 'Which?' } }]
  const refunds = [...last.text.matchAll(/refund (\\w+)/g)]
  if (refunds.length > 0)
    return refunds.map(([, order], index) => ({ type: 'tool_use', id: \`toolu_2\${index}\`, name: 'refund', input: { order, cents: 500 } }))
  if (word) return [{ type: 'tool_use', id: 'toolu_1', name: 'look_up', input: { word, ms: Number(ms) } }]
  return \`message \${texts.length}: \${last.text}\`
})
const echo = defineAgent({ name: 'echo', instructions: 'Say it again.', model, tools: [lookUp, refund, pick] })
const other = defineAgent({ name: 'other', instructions: 'Say it again.', model, tools: [] })
`

const IMPORTS = `
import { defineAgent, defineTool } from 'pawl'
import { scripted } from 'pawl/testing'
import { z } from 'zod'
`

const MODULES = {
  // Types that only a TypeScript loader removes.
  'agents.ts': `${IMPORTS}// @ts-nocheck\n${ECHO}\ninterface Named { name: string }\nconst named: Named[] = [echo]\nexport const agents = [...(named as (typeof echo)[]), other]\n`,
  'agents.mjs': `${IMPORTS}${ECHO}\nexport default [echo, other]\n`,
  'nobody.mjs': 'export const answer = 42\n',
  'broken.mjs': "import './does-not-exist.mjs'\nexport default []\n",
}

/** Makes the folder. */
export async function userFolder(): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'pawl-user-')))
  // The embedded Postgres may run as another user, who must be able to reach its data.
  await chmod(folder, 0o755)
  await mkdir(join(folder, 'node_modules'))
  await symlink(REPOSITORY, join(folder, 'node_modules', 'pawl'))
  await symlink(join(REPOSITORY, 'node_modules', 'zod'), join(folder, 'node_modules', 'zod'))
  for (const [name, text] of Object.entries(MODULES)) await writeFile(join(folder, name), text)
  await keepPort(join(folder, '.pawl'))
  return folder
}

/**
 * Makes it look as if `pawl dev` had run here before, on this port. A Temporal server on the usual port may belong to another test at any
 * moment, and an address that names the usual port may be intentional.
 */
async function keepPort(dataDir: string): Promise<void> {
  await mkdir(dataDir)
  await chmod(dataDir, 0o755)
  const state = {
    id: `pawl-${randomBytes(8).toString('hex')}`,
    password: randomBytes(18).toString('base64url'),
    temporalPort: await freePort(),
  }
  await writeFile(join(dataDir, 'stack.json'), JSON.stringify(state), { mode: 0o600 })
}
