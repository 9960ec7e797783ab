// What a test run ends with: where its time went, what was skipped and why, what failed, and then the line `N passed, N failed`, for people
// in a hurry and for machines.
import { writeSync } from 'node:fs'
import { relative } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import type { Reporter, SerializedError, TestModule } from 'vitest/node'

/** The counts of a run. A file that could not be loaded and an error outside of any test count as failures. */
interface Counts {
  passed: number
  failed: number
  skipped: number
}

/** Files that are shown. */
const SHOWN = 10

export default class ClosingLine implements Reporter {
  /** When a folder's files began and ended. They run in parallel, so their times do not add up. */
  readonly #folders = new Map<string, { began: number; ended: number }>()

  onTestModuleStart({ project }: TestModule): void {
    if (!this.#folders.has(project.name)) this.#folders.set(project.name, { began: Date.now(), ended: Date.now() })
  }

  onTestModuleEnd({ project }: TestModule): void {
    const folder = this.#folders.get(project.name)
    if (folder) folder.ended = Date.now()
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const counts = count(modules)
    counts.failed += unhandled.length
    const times = [...this.#folders].map(([name, { began, ended }]) => `${name} ${seconds(ended - began)}`)
    if (modules.length > SHOWN) console.log(`\nTime by folder: ${times.join(', ')}\n${timesOf(modules)}`)
    const outside = unhandled.map((error) => failed('outside of any test', [error]))
    const { pawlTestReports: servers = [] } = globalThis as { pawlTestReports?: string[] }
    const closing = [
      ...servers.map((line) => `Servers: ${line}`),
      ...skips(modules),
      ...failures(modules),
      ...outside,
      lineOf(counts),
    ].join('\n')
    // At exit, so that this line is the last one even if something ends after the tests.
    process.once('exit', () => writeSync(1, `\n${closing}\n`))
  }
}

const seconds = (ms: number): string => `${Math.round(ms / 1_000)} s`

/** The files with the largest of a time. */
function largest(modules: readonly TestModule[], msOf: (module: TestModule) => number): string {
  const times = modules.map((module) => ({ file: relative(process.cwd(), module.moduleId), ms: msOf(module) }))
  const first = times.toSorted((one, other) => other.ms - one.ms).slice(0, SHOWN)
  return first.map(({ file, ms }) => `  ${seconds(ms).padStart(6)}  ${file}`).join('\n')
}

/** The CPU of a file, without that of the servers that all files share. */
const cpuMs = (module: TestModule): number => (module.meta().cpuSeconds ?? 0) * 1_000

/** Where the time of a long run went. */
function timesOf(modules: readonly TestModule[]): string {
  const cpu = modules.reduce((sum, module) => sum + cpuMs(module), 0)
  const slowest = largest(modules, (module) => module.diagnostic().duration)
  return `The slowest files:\n${slowest}\nCPU without the shared servers: ${seconds(cpu)}, most of it in\n${largest(modules, cpuMs)}`
}

function count(modules: readonly TestModule[]): Counts {
  const counts: Counts = { passed: 0, failed: 0, skipped: 0 }
  for (const module of modules) {
    let failedTests = 0
    for (const test of module.children.allTests()) {
      const { state } = test.result()
      if (state === 'failed') failedTests += 1
      else counts[state === 'passed' ? 'passed' : 'skipped'] += 1
    }
    // If a hook or an import failed, its tests may not count as failed.
    counts.failed += module.state() === 'failed' ? Math.max(failedTests, 1) : failedTests
  }
  return counts
}

/** A line for each test that was skipped because something is missing; the line says what. */
function skips(modules: readonly TestModule[]): string[] {
  return modules.flatMap((module) =>
    [...module.children.allTests('skipped')].flatMap((test) => {
      const { note } = test.result() as { note?: string }
      return note ? [`Skipped: ${relative(process.cwd(), module.moduleId)} > ${test.fullName}: ${note.slice(0, LONGEST_REASON)}`] : []
    }),
  )
}

/** A line for each test and each file that failed: where, what, and the first lines of the reason. */
function failures(modules: readonly TestModule[]): string[] {
  return modules.flatMap((module) => {
    const file = relative(process.cwd(), module.moduleId)
    const tests = [...module.children.allTests('failed')].map((test) => failed(`${file} > ${test.fullName}`, test.result().errors ?? []))
    const suites = [...module.children.allSuites()].map((suite) => ({ name: suite.fullName, errors: suite.errors() }))
    const hooks = [{ name: 'the file itself', errors: module.errors() }, ...suites].filter(({ errors }) => errors.length > 0)
    return [...tests, ...hooks.map(({ name, errors }) => failed(`${file} > ${name}`, errors))]
  })
}

const LONGEST_REASON = 400

function failed(where: string, errors: readonly SerializedError[]): string {
  const reason = stripVTControlCharacters(errors.map(({ message }) => message).join(' | ')).replaceAll(/\s+/g, ' ')
  return `Failed: ${where}: ${reason.slice(0, LONGEST_REASON)}`
}

function lineOf({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
}
