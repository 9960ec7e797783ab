// The try-its under examples/: each prints what its page says.
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { expect, inject, it } from 'vitest'

const run = promisify(execFile)

/** Masks what differs from run to run: how long something took, and which process it was. */
const withoutChance = (text: string): string => text.replaceAll(/\d+ ms/g, 'N ms').replaceAll(/Executor \S+ died/g, 'Executor N died')

it.concurrent.each(['crash-and-resume', 'duplicate-write', 'checkpoint-audit'])('%s prints what its page says', async (name) => {
  const { temporalAddress, databaseUrl } = inject('stack')
  const env = { ...process.env, TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl }
  const folder = new URL(`../../examples/${name}/`, import.meta.url)
  const { stdout } = await run(process.execPath, ['--import', 'tsx', new URL('main.ts', folder).pathname], { env, timeout: 110_000 })
  const page = await readFile(new URL('README.md', folder), 'utf8')
  const [, printed] = /```\n([^]*?)```/.exec(page.replace(/```sh\n[^]*?```/, '')) ?? []
  expect(withoutChance(stdout.trim())).toBe(withoutChance(printed?.trim() ?? ''))
})
