// The tables that a rebuild cannot restore: the guide has the same list as the command.
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { NOT_REBUILT } from '../../../src/client/admin/not-rebuilt.ts'

const textOf = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8')
const TABLES = [
  ...textOf('src/store/postgres/migrations/0001_side_store.sql').matchAll(/^create (?:unlogged )?table \{schema\}\.(\w+)/gm),
].map(([, name]) => name)
/** Tables that a rebuild fills: with rows of events, or with what is summed and derived from those. */
const RESTORED = [
  'namespace',
  'sessions',
  'events',
  'messages',
  'tool_calls',
  'errors',
  'token_usage',
  'spend',
  'usage_by_day',
  'usage_by_session',
  'checkpoints',
  'commits',
  'approvals',
  'custom_events',
  'recoveries',
]

it('the guide lists the tables that a rebuild cannot restore, with what is lost of each', () => {
  const [, section = ''] = textOf('docs/upkeep.md').split('**What it cannot restore.**')
  const [rows = ''] = section.split('Without `completed_keys`')
  const listed = [...rows.matchAll(/^\| `(\w+)` \| (.+) \|$/gm)].map(([, table, lost]) => [table, lost])
  expect(listed).toEqual(Object.entries(NOT_REBUILT))
})

it('every table is either restored by a rebuild, or listed as one that it cannot restore', () => {
  expect([...RESTORED, ...Object.keys(NOT_REBUILT)].sort()).toEqual(TABLES.sort())
})
