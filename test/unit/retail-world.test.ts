// The retail world without pawl: every task's ground-truth calls give the workload's results and final database.
import { describe, expect, it } from 'vitest'
import { type Database, canonicalText, databaseHash, haveSameContent, resultHash } from '../retail/database.ts'
import { EvaluationError, evaluate, printFloat, round2 } from '../retail/numbers.ts'
import { type Task, readDatabase, readExpected, readTasks, readToolSpecs, hasWorkload } from '../retail/workload.ts'
import { WORLD_TOOLS, runTool } from '../retail/world.ts'
import { seed, variants } from '../support/sizes.ts'

/** Carries out a task, noting what each call returned, whether it wrote, and whether an immediate repeat would write again. */
function carryOut(task: Task, fresh: Database) {
  let database = fresh
  const results: string[] = []
  const wrote: number[] = []
  const repeats: number[] = []
  const changes = (before: Database, after: Database) => !haveSameContent(before, after)
  for (const [index, { name, kwargs }] of task.actions.entries()) {
    const outcome = runTool(database, name, kwargs)
    results.push(resultHash(outcome.text))
    if (changes(database, outcome.database)) {
      wrote.push(index)
      if (changes(outcome.database, runTool(outcome.database, name, kwargs).database)) repeats.push(index)
    }
    database = outcome.database
  }
  return { results, wrote, repeats, finalHash: databaseHash(database) }
}

/** Hashing a database takes time, so each test covers only some of the tasks. */
const TASKS_PER_TEST = 40

describe.skipIf(!hasWorkload)(`the retail world (seed ${seed}, again with PAWL_SEED)`, () => {
  const fresh = hasWorkload ? readDatabase() : ({} as Database)
  const tasks = hasWorkload ? readTasks() : []
  const firsts = tasks.flatMap((_, first) => (first % TASKS_PER_TEST === 0 ? [first] : []))
  const expected = hasWorkload ? readExpected() : new Map<string, never>()

  it('the retail world starts from the database that the workload was made with', () => {
    expect(databaseHash(fresh)).toBe('d991536bad97041c473ace12f4934d7bef3ce26b3ec29995b6dc9c8c0280157a')
  })

  it('the retail world has exactly the tools that the workload describes', () => {
    expect([...WORLD_TOOLS.keys()].sort()).toEqual(
      readToolSpecs()
        .map((spec) => spec.name)
        .sort(),
    )
  })

  it('the retail world has 635 tasks', () => {
    expect(tasks).toHaveLength(635)
  })

  it.each(variants(firsts, 5))(
    `the retail world reproduces every result, every change and every final database of the ${TASKS_PER_TEST} tasks from the %dth`,
    (first) => {
      for (const task of tasks.slice(first, first + TASKS_PER_TEST)) {
        const { results_canonical, write_log, repeat_log, final_hash } =
          expected.get(task.id) ?? expect.fail(`nothing expected of ${task.id}`)
        expect({ id: task.id, ...carryOut(task, fresh) }).toEqual({
          id: task.id,
          results: results_canonical,
          wrote: write_log,
          repeats: repeat_log,
          finalHash: final_hash,
        })
      }
    },
  )

  it('the retail world writes only with tools that are declared to write', () => {
    const writers = new Set(readToolSpecs().flatMap((spec) => (spec.effect === 'write' ? [spec.name] : [])))
    for (const task of readTasks()) {
      let database = fresh
      for (const { name, kwargs } of task.actions) {
        const after = runTool(database, name, kwargs).database
        if (after !== database) expect(writers).toContain(name)
        database = after
      }
    }
  })

  it('no retail task requests the same write twice, so a key per run never mistakes two writes for one', () => {
    const writers = new Set(readToolSpecs().flatMap((spec) => (spec.effect === 'write' ? [spec.name] : [])))
    for (const task of readTasks()) {
      const intents = task.actions.filter(({ name }) => writers.has(name)).map(({ name, kwargs }) => name + canonicalText(kwargs))
      expect(new Set(intents).size, task.id).toBe(intents.length)
    }
  })

  it('the retail world leaves the database that it was given unchanged', () => {
    const [cancelled] = Object.values(fresh.orders).filter((order) => order.status === 'pending')
    const { database } = runTool(fresh, 'cancel_pending_order', { order_id: cancelled?.order_id ?? '', reason: 'no longer needed' })
    expect(database.orders[cancelled?.order_id ?? '']?.status).toBe('cancelled')
    expect(databaseHash(fresh)).toBe('d991536bad97041c473ace12f4934d7bef3ce26b3ec29995b6dc9c8c0280157a')
  })

  it('the retail world does not mistake names of object properties for ids', () => {
    expect(runTool(fresh, 'get_order_details', { order_id: 'constructor' }).text).toBe('Error: order not found')
    expect(runTool(fresh, 'get_product_details', { product_id: '__proto__' }).text).toBe('Error: product not found')
  })
})

describe('numbers as in Python', () => {
  it.each([
    [0.125, 0.12],
    [0.375, 0.38],
    [0.625, 0.62],
    [2.675, 2.67],
    [-0.125, -0.12],
    [-0.375, -0.38],
    [1.005, 1],
    [25, 25],
    [137438953472.125, 137438953472.12],
  ])('the retail world rounds %d to %d', (value, rounded) => {
    expect(round2(value)).toBe(rounded)
  })

  it.each([
    ['2 + 2', '4.0'],
    ['7 / 2', '3.5'],
    ['-7 // 2', '-4.0'],
    ['7 // -2', '-4.0'],
    ['-7.5 // 2', '-4.0'],
    ['2**3**2', '512.0'],
    ['-2**2', '-4.0'],
    ['2**-1', '0.5'],
    ['(1 + 2) * 3', '9.0'],
    ['+-+3', '-3.0'],
    ['10**17', '1e+17'],
    ['.5 + 5.', '5.5'],
    ['0.125', '0.12'],
    ['-0.001', '-0.0'],
    ['1 // 0.1', '9.0'],
  ])('the calculator of the retail world evaluates %s to %s', (expression, printed) => {
    expect(printFloat(round2(evaluate(expression)))).toBe(printed)
  })

  it.each([
    ['1/0', 'division by zero'],
    ['1 // 0', 'integer division or modulo by zero'],
    ['1.0/0', 'float division by zero'],
    ['2 +', 'invalid syntax (<string>, line 1)'],
    ['', 'invalid syntax (<string>, line 0)'],
    ['1.2.3', 'invalid syntax (<string>, line 1)'],
    ['(1', "'(' was never closed (<string>, line 1)"],
    ['1)', "unmatched ')' (<string>, line 1)"],
    ['10**400', 'int too large to convert to float'],
  ])('the calculator of the retail world refuses %s with "%s"', (expression, message) => {
    expect(() => evaluate(expression)).toThrow(new EvaluationError(message))
  })
})
