// The crash kit and its command line, with real processes and servers: a correct agent passes, killed at every boundary (usually, at
// boundaries of some kinds, and in some kinds of trouble, which the seed draws).
import { execFile, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { crashTest } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { seed, size, variants } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { bank } from './support/bank.ts'
import { type Kit, openKit } from './support/kit.ts'
import { isAlive } from './support/rig.ts'
import { kindOf, kindsOf, someBoundaries } from './support/some-boundaries.ts'
import type { TroubleKind } from '../../src/testing/crash/types.ts'

const CLI = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const SUPPORT = new URL('./support/bank.ts', import.meta.url).href
/** Begins a crash test that needs no servers of its own, and finds the shared ones in its environment. */
const ON_SHARED_STACK = `import { startStack } from 'pawl/testing'\nconst stack = await startStack()\n`
/** No random rounds, and one worker process. */
const FEW = ['--rounds', '0', '--processes', '1']

const KINDS = variants(kindsOf('model', 'tool', 'verify', 'flush'), 4)
const TROUBLES: readonly TroubleKind[] = variants(['kill', 'pause', 'supervisor', 'pause_supervisor', 'both', 'postgres', 'temporal'], 2)

describe('a crash test', () => {
  let kit: Kit

  beforeAll(async () => {
    kit = await openKit()
  })
  afterAll(() => kit?.close())

  it(`a correct agent passes the crash test at its boundaries and under random faults (seed ${seed}, again with PAWL_SEED)`, async () => {
    const calls = size(['transfer:bob'], ['charge:alice', 'transfer:bob'])
    // It starts servers of its own, which may be stopped and restarted.
    const result = await crashTest({
      module: kit.module,
      agent: 'good',
      script: [calls.join(' ')],
      world: bank(),
      log: () => undefined,
      random: { seed, kinds: [...TROUBLES], rounds: TROUBLES.length },
      ...size({ only: someBoundaries(seed, KINDS) }, {}),
    })
    expect(result.ok, result.table).toBe(true)
    expect(result.boundaries.map(({ boundary }) => kindOf(boundary))).toEqual(expect.arrayContaining([...KINDS]))
    const reached = result.boundaries.filter(({ verdict }) => verdict === 'ok').map(({ boundary }) => boundary)
    expect(reached.filter(({ what }) => what !== 'flush')).toEqual(
      result.boundaries.map(({ boundary }) => boundary).filter(({ what }) => what !== 'flush'),
    )
    expect(new Set(result.rounds.flatMap(({ troubles }) => troubles.map((trouble) => trouble.split(' ')[0])))).toEqual(new Set(TROUBLES))
    expect(
      result.table.split('\n').every((line) => line.length <= 80),
      result.table,
    ).toBe(true)
    const effects = result.baseline.effects as { what: string; account: string }[]
    expect(effects.map(({ what, account }) => `${what}:${account}`)).toEqual(calls)
  }, 900_000)

  it('a crash test leaves no process running when it is killed itself while its supervisor is frozen', async () => {
    const folder = dirname(kit.module)
    const [file, pidsFile] = [join(folder, 'killed.crash.mjs'), join(folder, 'pids')]
    await writeFile(pidsFile, '')
    const options = `{ module: ${JSON.stringify(kit.module)}, agent: 'good', script: ['balance:alice'] }`
    const world = '{ reset() {}, snapshot: () => null, effects: () => [] }'
    await writeFile(file, `${ON_SHARED_STACK}export default { ...${options}, world: ${world}, stack }\n`)
    const env = { ...process.env, PAYERS_PIDS: pidsFile, BANK_URL: 'http://127.0.0.1:1' }
    const command = spawn(process.execPath, [CLI, 'crash-test', file], { env, stdio: 'ignore' })
    const pids = () => [...new Set(readFileSync(pidsFile, 'utf8').split(/\s+/).filter(Boolean).map(Number))]
    await until('two workers and their supervisor', () => pids().length === 3, 120_000)
    const [, supervisor] = pids()
    process.kill(supervisor ?? expect.fail('no supervisor'), 'SIGSTOP')
    command.kill('SIGKILL')
    await until('all of them are gone', () => !pids().some(isAlive), 60_000)
  })

  it('a crash test runs from the command line, with the table on standard output and an exit code', async () => {
    const file = join(dirname(kit.module), 'payers.crash.ts')
    const module = `new URL(${JSON.stringify(pathToFileURL(kit.module).href)})`
    const text = [
      `import { bank } from ${JSON.stringify(SUPPORT)}`,
      `${ON_SHARED_STACK}export default { module: ${module}, agent: 'repeated', script: ['transfer:alice'], world: bank(), stack }`,
    ].join('\n')
    await writeFile(file, text)
    const { code, stdout, stderr } = await run([CLI, 'crash-test', file, '--only', 'tool.*(before|response)', ...FEW])
    expect(stdout, stderr).toMatch(/^killed at +before +during +after\nrun 1 turn 1: tool transfer \(t_1_1_0\) +ok +DIFFERS +-\n/)
    expect(stderr).toContain('2/2 run 1 turn 1: tool transfer')
    expect(code).toBe(1)
    const json = await run([CLI, 'crash-test', file, '--only', 'tool.*before', ...FEW, '--json'])
    expect(json.code).toBe(0)
    expect(JSON.parse(json.stdout)).toMatchObject({ ok: true, boundaries: [{ verdict: 'ok', boundary: { tool: 'transfer' } }] })
  })
})

function run(args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, args, { encoding: 'utf8' }, (error, stdout, stderr) =>
      resolve({ code: error ? Number(error.code) : 0, stdout, stderr }),
    )
  })
}
