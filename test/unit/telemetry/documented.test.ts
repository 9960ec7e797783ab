// The metrics, labels and attributes that the guides and the alert rules name are those of the code.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { INSTRUMENTS, type Instrument } from '../../../src/telemetry/instruments.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const textOf = (path: string): string => readFileSync(`${ROOT}/${path}`, 'utf8')
const filesIn = (folder: string, ending: RegExp): string[] =>
  readdirSync(`${ROOT}/${folder}`, { recursive: true, encoding: 'utf8' }).flatMap((name) =>
    ending.test(name) ? [`${folder}/${name}`] : [],
  )

const guide = textOf('docs/telemetry.md')
const docs = filesIn('docs', /\.(md|yml)$/)
/** The text of the code that measures and writes spans. */
const code = [...filesIn('src/telemetry', /\.ts$/), ...filesIn('src/worker/orchestrator/telemetry', /\.ts$/)].map(textOf).join('\n')
const instruments = Object.entries(INSTRUMENTS) as [string, Instrument][]
/** Labels of metrics, and attributes of spans. */
const attributes = new Set([...code.matchAll(/'((?:pawl|gen_ai|session|error|exception)\.[a-z_.]+)'/g)].map(([, name = '']) => name))
const eventTypes = new Set([...textOf('src/session/events.ts').matchAll(/type: '([a-z_]+)'/g)].map(([, type]) => `pawl.${type}`))

/** What Prometheus calls an instrument: its series, by kind. */
function seriesOf([name, { kind }]: [string, Instrument]): string[] {
  const flat = name.replaceAll('.', '_')
  if (kind === 'counter') return [`${flat}_total`]
  return kind === 'gauge' ? [flat] : ['bucket', 'count', 'sum'].map((part) => `${flat}_${part}`)
}

describe('the table of metrics in the guide', () => {
  const [, table = ''] = /^\| metric \| what \| labels \|\n((?:\|.*\n)+)/m.exec(guide) ?? []
  const rows = table.split('\n').slice(1, -1)

  it('the table of metrics in the guide has every instrument once, with its unit', () => {
    const documented = rows.flatMap((row) => {
      const [, names = ''] = row.split('|')
      return [...names.matchAll(/`([a-z_.]+)`( \(s\))?/g)].map(([, name, inSeconds]) => [name, inSeconds !== undefined] as const)
    })
    expect(documented.toSorted()).toEqual(instruments.map(([name, { unit }]) => [name, unit === 's']).toSorted())
  })

  it('the table of metrics in the guide names no label that the code does not set', () => {
    const labels = rows.flatMap((row) => [...(row.split('|')[3] ?? '').matchAll(/`([a-z_]+\.[a-z_.]+)`/g)].map(([, name = '']) => name))
    expect(labels.length).toBeGreaterThan(10)
    expect(labels.filter((name) => !attributes.has(name))).toEqual([])
  })
})

describe('the names of telemetry in the docs', () => {
  it('a name of the conventions in the docs is a metric or an attribute of the code', () => {
    const named = docs.flatMap((path) => [...textOf(path).matchAll(/\bgen_ai\.[a-z_.]*[a-z]/g)].map(([name]) => name))
    expect(named.length).toBeGreaterThan(10)
    expect(named.filter((name) => !(name in INSTRUMENTS) && !attributes.has(name))).toEqual([])
  })

  it('a name that begins with pawl in the guide to telemetry is a metric, an attribute or an event of the code', () => {
    const named = [...guide.matchAll(/`(pawl\.[a-z_.]*[a-z])(?:[:=][^`]*)?`/g)].map(([, name = '']) => name)
    const known = (name: string): boolean => name in INSTRUMENTS || attributes.has(name) || eventTypes.has(name)
    expect(named.length).toBeGreaterThan(30)
    // A table of the side store.
    expect(new Set(named.filter((name) => !known(name)))).toEqual(new Set(['pawl.consumers']))
  })

  it('a name as Prometheus writes it, anywhere in the docs, is a series or a label of the code', () => {
    const series = new Set(instruments.flatMap(seriesOf))
    const labels = new Set([...attributes].map((name) => name.replaceAll('.', '_')))
    const named = docs.flatMap((path) => [...textOf(path).matchAll(/\b(?:pawl|gen_ai)_[a-z_]+/g)].map(([name]) => ({ path, name })))
    expect(named.length).toBeGreaterThan(50)
    // The first part of the name of a generated client, in docs/web.md.
    const others = named.filter(({ name }) => name !== 'pawl_client' && !series.has(name) && !labels.has(name))
    expect(others).toEqual([])
  })
})

it('a summary of an alert reads well for any number that triggers it', () => {
  const summaries = [...textOf('docs/alerts.yml').matchAll(/summary: '(.+)'/g)].map(([, summary = '']) => summary)
  expect(summaries.length).toBeGreaterThan(10)
  // `1 sessions` would be wrong; a duration brings its own unit.
  expect(summaries.filter((summary) => /\{\{ \$value[^|}]*\}\} [a-z]+s\b/.test(summary))).toEqual([])
})
