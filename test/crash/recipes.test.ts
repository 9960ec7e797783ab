// The tools of docs/recipes.md with fakes of the providers' APIs: each effect happens once, wherever its worker is killed. Usually one of
// the recipes, which the seed draws.
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { crashTest, startStack, type Stack } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { size, variants } from '../support/sizes.ts'
import { type Compiled, compile } from './support/build.ts'
import { providers } from './support/providers.ts'

const RECIPES = ['refund_payment', 'send_mail', 'send_letter', 'send_text', 'open_issue', 'open_ticket', 'book_meeting']
const FILES = ['http', 'payments', 'mail', 'sms', 'issues', 'calendar']

const read = (path: string): Promise<string> => readFile(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8')

describe('a recipe', () => {
  let stack: Stack
  let compiled: Compiled

  beforeAll(async () => {
    compiled = await compile(['test/crash/fixtures/recipes.ts'])
    stack = await startStack()
  })
  afterAll(async () => {
    await stack?.stop()
    await compiled?.remove()
  })

  it.each(variants(RECIPES, 1))('the recipe %s has its effect once, wherever its worker is killed', async (tool) => {
    const result = await crashTest({
      module: compiled.path('recipes'),
      agent: 'desk',
      script: [tool],
      world: providers(),
      stack,
      random: false,
      log: () => undefined,
      only: size(/: tool /, /: (tool|verify) /),
      processes: 1,
    })
    expect(result.ok, result.table).toBe(true)
    expect(result.baseline.effects).toHaveLength(1)
    expect(result.boundaries.filter(({ boundary }) => boundary.what === 'tool').map(({ boundary }) => boundary.stage)).toEqual(
      expect.arrayContaining(['before', 'during', 'after']),
    )
  })
})

it('the guide has every recipe that runs here', async () => {
  const guide = await read('docs/recipes.md')
  for (const file of FILES) {
    const [, snippet = ''] = /\/\/ #region guide\n([\s\S]*)\/\/ #endregion/.exec(await read(`test/guides/recipes/${file}.ts`)) ?? []
    expect(guide, file).toContain(snippet)
  }
})
