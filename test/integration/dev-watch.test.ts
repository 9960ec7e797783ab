// `pawl dev` watches files: it serves what is saved, reports what cannot be loaded, and disturbs nothing that runs.
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Pawl } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { seed, variants } from '../support/sizes.ts'
import { userFolder } from './cli/folder.ts'
import { eventsIn, type PawlEvent, type PawlProcess, pawl } from './cli/processes.ts'

const START_MS = 60_000

/** An agent that answers with a greeting, and whose tool waits until a file exists. It imports the greeting and the tool. */
const AGENTS = `
import { defineAgent } from 'pawl'
import { scripted } from 'pawl/testing'
import { greeting, wait } from './greeting.ts'

const blocksOf = (message: any) => (typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content)
const model = scripted(({ messages }: any) => {
  const last = blocksOf(messages.at(-1)).at(-1)
  if (last.type === 'tool_result') return \`\${greeting} after \${JSON.stringify(last.content)}\`
  const [, file] = /^wait for (\\S+)$/.exec(last.text) ?? []
  if (file) return [{ type: 'tool_use', id: 'toolu_1', name: 'wait', input: { file } }]
  return \`\${greeting} to: \${last.text}\`
})
export const agents = [defineAgent({ name: 'greeter', instructions: 'Greet.', model, tools: [wait] })]
`

const greets = (greeting: string, imports = ''): string => `
import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineTool } from 'pawl'
import { z } from 'zod'
${imports}
export const greeting: string = ${JSON.stringify(greeting)}
export const wait = defineTool({
  name: 'wait',
  description: 'Waits for a file.',
  input: z.object({ file: z.string() }),
  effect: 'external',
  async execute({ file }) {
    appendFileSync(\`\${file}.entered\`, \`\${greeting}\\n\`)
    while (!existsSync(file)) await sleep(20)
    return greeting
  },
})
`

let folder: string
let dev: PawlProcess
let client: Pawl
const started: PawlProcess[] = []
const path = (name: string) => join(folder, name)

function start(args: string[]): PawlProcess {
  const { temporalAddress, databaseUrl } = inject('stack')
  const process = pawl(args, { cwd: folder, env: { TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl } })
  started.push(process)
  return process
}

/** Saves a file like a program that writes it in place. */
async function save(name: string, text: string): Promise<void> {
  await mkdir(dirname(path(name)), { recursive: true })
  await writeFile(path(name), text)
}

/** Runs `act`, and returns the next event of that name. */
async function after(name: 'reloaded' | 'reload_failed', act: () => Promise<unknown>): Promise<PawlEvent> {
  const before = eventsIn(dev.stdout()).filter(({ event }) => event === name).length
  await act()
  return dev.event(name, before + 1)
}

/** The agent's answer, in a new session. */
async function answer(text: string, taskQueue = 'watched'): Promise<string> {
  const run = await client.session(randomUUID(), { agent: 'greeter', taskQueue }).send(text)
  return (await run.result()).text
}

beforeAll(async () => {
  folder = await userFolder()
  await save('greeting.ts', greets('Hello'))
  await save('agents.ts', AGENTS)
  dev = start(['dev', 'agents.ts', '--json', '--processes', '1', '--task-queue', 'watched'])
  await dev.event('ready')
  const { temporalAddress: address, namespace, databaseUrl: postgres } = inject('stack')
  client = await Pawl.connect({ temporal: { address, namespace }, postgres })
}, START_MS)

afterAll(async () => {
  await client.close()
  for (const process of started) process.kill('SIGTERM')
  await Promise.all(started.map((process) => process.ended))
  await rm(folder, { recursive: true, force: true })
}, START_MS)

describe('pawl dev', () => {
  it('pawl dev serves saved changes, even to a session in mid-call, whose call ends with the code it began with', async () => {
    expect(await answer('anybody')).toBe('Hello to: anybody')
    const orchestrators = () => eventsIn(dev.stdout()).filter(({ event }) => event === 'orchestrator_started').length
    const chat = start(['chat', 'greeter', '--task-queue', 'watched'])
    chat.type('wait for gate\n')
    await chat.says(/→ wait/)
    await expect.poll(() => readFileSync(path('gate.entered'), 'utf8'), { timeout: START_MS }).toBe('Hello\n')

    const reloaded = await after('reloaded', () => save('greeting.ts', greets('Good morning')))
    expect(reloaded).toEqual({ event: 'reloaded', module: 'agents.ts', files: ['greeting.ts'], ms: expect.any(Number) })
    expect(await answer('anybody')).toBe('Good morning to: anybody')
    await save('gate', '')
    await chat.says(/greeter › Good morning after .*"Hello"/)
    expect(readFileSync(path('gate.entered'), 'utf8')).toBe('Hello\n')
    chat.endInput()
    expect(await chat.ended).toMatchObject({ code: 0, stdout: expect.not.stringContaining('attempt') })
    expect(orchestrators()).toBe(1)
  }, 120_000)

  it('pawl dev watches newly imported files, and stops watching files that are no longer imported', async () => {
    await save('lib/name.ts', "export const name = 'Ann'\n")
    await after('reloaded', () => save('greeting.ts', greets('Hi', "import { name } from './lib/name.ts'\nexport { name }")))
    expect(await after('reloaded', () => save('lib/name.ts', "export const name = 'Bob'\n"))).toMatchObject({ files: ['lib/name.ts'] })
    await after('reloaded', () => save('greeting.ts', greets('Hey')))
    await save('lib/name.ts', "export const name = 'Cid'\n")
    expect(await after('reloaded', () => save('greeting.ts', greets('Hey there')))).toMatchObject({ files: ['greeting.ts'] })
  }, 120_000)

  const MISTAKES: readonly [string, string, RegExp][] = [
    ['cannot be parsed', "export const greeting: string = 'Hello", /greeting\.ts:1:\d+/],
    ['throws', greets('Hello').replace('export', 'nowhere()\nexport'), /nowhere is not defined \(at .*greeting\.ts:7:1\)/],
    ['imports what is missing', greets('Hello', "import './not/there.ts'"), /not\/there\.ts/],
  ]
  it.each(variants(MISTAKES, 1))(
    `pawl dev keeps the previous code if the new code %s, and says why (seed ${seed}, again with PAWL_SEED)`,
    async (_, broken, why) => {
      const before = await answer('you')
      const failed = await after('reload_failed', () => save('greeting.ts', broken))
      expect(failed).toMatchObject({
        module: 'agents.ts',
        files: ['greeting.ts'],
        code: 'module_failed',
        message: expect.stringMatching(why),
      })
      expect(await answer('you')).toBe(before)
      await after('reloaded', () => save('greeting.ts', greets('Well again')))
      expect(await answer('you')).toBe('Well again to: you')
    },
    120_000,
  )

  it('pawl dev tries again when a missing file appears, and when a file is saved unchanged', async () => {
    await after('reload_failed', () => save('greeting.ts', greets('Found', "import './later/found.ts'")))
    await after('reloaded', () => save('later/found.ts', 'export {}\n'))
    expect(await answer('you')).toBe('Found to: you')
    await after('reload_failed', () => rm(path('later'), { recursive: true }))
    await after('reload_failed', () => save('greeting.ts', greets('Found', "import './later/found.ts'")))
    await after('reloaded', () => save('later/found.ts', 'export {}\n'))
  }, 120_000)

  it('pawl dev notices what editors save by renaming, again and again', async () => {
    for (const greeting of ['Ahoy', 'Ahoy there']) {
      await after('reloaded', async () => {
        await save('greeting.ts~', greets(greeting))
        await rename(path('greeting.ts~'), path('greeting.ts'))
      })
      expect(await answer('you')).toBe(`${greeting} to: you`)
    }
  }, 120_000)

  it('pawl dev reloads once for several saves in quick succession', async () => {
    const reloads = () => eventsIn(dev.stdout()).filter(({ event }) => event === 'reloaded' || event === 'reload_failed').length
    const before = reloads()
    await after('reloaded', async () => {
      for (const text of [greets('One'), '', greets('Two'), 'broken(', greets('Three')]) await save('greeting.ts', text)
    })
    // Saving the file unchanged has no effect.
    await save('greeting.ts', greets('Three'))
    expect(await answer('you')).toBe('Three to: you')
    await after('reloaded', () => save('greeting.ts', greets('Four')))
    expect(reloads()).toBe(before + 2)
  }, 120_000)

  it('pawl dev does not watch with --no-watch, and pawl worker never does', async () => {
    const old = await answer('you')
    const calm = start(['dev', 'agents.ts', '--json', '--no-watch', '--processes', '1', '--task-queue', 'calm', '--data', 'calm'])
    const worker = start(['worker', 'agents.ts', '--json', '--processes', '1', '--task-queue', 'worker'])
    await Promise.all([calm.event('ready'), worker.event('ready')])
    await after('reloaded', () => save('greeting.ts', greets('New')))
    expect(await answer('you')).toBe('New to: you')
    expect(await answer('you', 'calm')).toBe(old)
    expect(await answer('you', 'worker')).toBe(old)
  }, 120_000)
})
