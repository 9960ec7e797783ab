// Tables for people: they fit the terminal, ids stay whole, times are ages.
import { describe, expect, it } from 'vitest'
import { ageText, type Column, linesOfTable } from '../../src/cli/table.ts'

interface Row {
  id: string
  status: string
  runs: number
  at: Date | null
  text: string
}

const COLUMNS: Column<Row>[] = [
  { name: 'session', of: (row) => row.id, whole: true },
  { name: 'status', of: (row) => row.status, status: true },
  { name: 'runs', of: (row) => row.runs, right: true, optional: true },
  { name: 'updated', of: (row) => row.at },
  { name: 'why', of: (row) => row.text },
]
const now = Date.UTC(2026, 10, 25, 12)
const row: Row = {
  id: '0b9b7a51-98c8-4d5e-9d0a-4f6a2cf0d9f1',
  status: 'error worker_died_again_and_again_and_again',
  runs: 12,
  at: new Date(now - 7_325_000),
  text: 'The tool failed, and nobody knows why it did so on this day of all days.',
}

describe('a table', () => {
  it.each([60, 80, 100, 200])('a table fits %i columns, as far as its ids do', (width) => {
    const lines = linesOfTable(COLUMNS, [row, { ...row, at: null }], { width, now })
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(Math.max(width, 36 + 2 + 32 + 2 + 10 + 2 + 20))
    for (const line of lines.slice(1)) expect(line).toContain(row.id)
  })

  it('a table omits optional columns that do not fit, cuts the last one, and shows times as ages', () => {
    expect(linesOfTable(COLUMNS, [{ ...row, status: 'idle' }], { width: 75, now })).toEqual([
      'session                               status  updated  why',
      `${row.id}  idle    2 h ago  The tool failed, an…`,
    ])
    expect(linesOfTable(COLUMNS, [{ ...row, status: 'idle', text: 'x' }], { width: 75, now })).toEqual([
      'session                               status  runs  updated  why',
      `${row.id}  idle      12  2 h ago  x`,
    ])
  })

  it('a wide table shows all columns, and exact times', () => {
    expect(linesOfTable(COLUMNS, [row], { wide: true, width: 80, now })[1]).toBe(
      `${row.id}  ${row.status}    12  2026-11-25T09:57:55Z  ${row.text}`,
    )
  })
})

it.each([
  [0, 'now'],
  [-5_000, '5 s ago'],
  [-7_325_000, '2 h ago'],
  [3 * 86_400_000, 'in 3 d'],
  [-90 * 86_400_000, '2026-08-27'],
])('a time %i ms away is shown as %s', (away, text) => {
  expect(ageText(now + away, now)).toBe(text)
})
