// The conformance suite of MCP against pawl's client. `test/mcp-conformance/not-yet.json` lists the scenarios that pawl does not pass: to
// servers of 2025 it does not announce elicitation, because they would wait for the answer with a call in progress; and the SDK refuses a
// result without a `resultType`, so the call fails although the checks of the scenario succeed. The test fails if another one fails, and if
// one of these passes.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Compiled, compile } from '../crash/support/build.ts'
import { findNode } from '../support/node-versions.ts'
import { variants } from '../support/sizes.ts'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const SUITE = fileURLToPath(new URL('../mcp-conformance/node_modules/@modelcontextprotocol/conformance', import.meta.url))
/** The oldest release of Node that the suite runs with, as the tests of the package install it. */
const NODE = '22.23.3'

const notYet = JSON.parse(readFileSync(new URL('../mcp-conformance/not-yet.json', import.meta.url), 'utf8')) as Record<string, string[]>

let node: string | undefined
let client: Compiled

beforeAll(async () => {
  await run(process.execPath, ['scripts/install.js', 'test/mcp-conformance'], { cwd: ROOT })
  node = await findNode(NODE)
  client = await compile(['test/support/mcp/conformance-client.ts'])
})
afterAll(() => client?.remove())

/** The scenarios that a revision of the protocol requires of a client. */
async function requiredBy(revision: string): Promise<string[]> {
  const text = await readFile(`${SUITE}/requirements/${revision}.yaml`, 'utf8')
  const [, list = ''] = /^client:\n((?: {2}- .*\n)+)/m.exec(text) ?? []
  return list.split('\n').flatMap((line) => (line.startsWith('  - ') ? [line.slice(4).trim()] : []))
}

/** What the suite reports if the scenario fails; undefined if it passes. */
async function failureOf(scenario: string, revision: string): Promise<string | undefined> {
  const command = `${process.execPath} ${client.path('conformance-client')}`
  const args = [`${SUITE}/dist/index.js`, 'client', '--scenario', scenario, '--spec-version', revision, '--command', command]
  return run(node ?? '', args).then(
    () => undefined,
    ({ stdout, stderr }: { stdout: string; stderr: string }) => stdout + stderr,
  )
}

/** A scenario starts several processes, and a revision requires dozens of them. */
const EACH_MS = 15_000

describe.each(Object.entries(notYet))('revision %s of MCP', (revision, listed) => {
  it(`pawl passes the conformance scenarios of MCP ${revision}, apart from one`, { timeout: EACH_MS * 40 }, async ({ skip }) => {
    if (!node) return skip()
    const required = await requiredBy(revision)
    expect(required).toEqual(expect.arrayContaining(listed))
    // One after another: one of them measures how long the client waits.
    for (const scenario of required.filter((name) => !listed.includes(name)))
      expect(await failureOf(scenario, revision), scenario).toBeUndefined()
  })

  // Outside the soak, only some of them.
  it.each(variants(listed, 3))(`pawl does not pass the conformance scenario %s of MCP ${revision}`, async (scenario) => {
    if (node) expect(await failureOf(scenario, revision)).toBeDefined()
  })
})
