// What an error about an option says: the option, what is allowed, and what was passed.
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { checkOptions, duration, integer, oneOf, options, text, where } from '../../../src/options/check.ts'
import { InvalidOptionError } from '../../../src/options/errors.ts'

const PROMETHEUS = options({ port: integer(1, 65_535).optional(), host: text().optional() })
const OPTIONS = options({
  module: text('the path of a module'),
  processes: integer(1, 64).optional(),
  wait: duration().optional(),
  mode: oneOf('auto', 'check', 'off').optional(),
  telemetry: z.union([z.literal(false), options({ prometheus: PROMETHEUS.optional() })]).optional(),
  by: text().optional(),
  id: z.string().optional(),
  price: where((value) => value === 1, 'dollars: { input: number }; see the docs').optional(),
  agent: where((value) => value === 1, 'an agent, or its name: 1 to 100 of [A-Za-z0-9._-]').optional(),
  on: z.array(z.union([options({ type: oneOf('emitted'), name: text().optional() }), options({ type: oneOf('spent') })])).optional(),
})

function messageFor(given: unknown): string {
  try {
    checkOptions(OPTIONS, given)
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidOptionError)
    return (error as InvalidOptionError).message
  }
  throw new Error('the options were accepted')
}

const messageWith = (given: object) => messageFor({ module: './agents.ts', ...given })

describe('the error for a value', () => {
  it.each([
    [{ processes: 0 }, '`processes` must be an integer from 1 to 64, not 0.'],
    [{ processes: 20_000 }, '`processes` must be an integer from 1 to 64, not 20,000.'],
    [{ processes: Number.NaN }, '`processes` must be an integer from 1 to 64, not NaN.'],
    [
      { wait: '5 seconds' },
      '`wait` must be a number of milliseconds or a string such as \'30s\', above 0 and at most 24 days, not "5 seconds".',
    ],
    [{ mode: 'always' }, "`mode` must be 'auto', 'check' or 'off', not \"always\"."],
    [{ by: 5 }, '`by` must be a non-empty string, not 5.'],
    [{ id: 5 }, '`id` must be of type string, not 5.'],
  ])('the error for a value says what is allowed: %o', (given, message) => {
    expect(messageWith(given)).toBe(message)
  })

  it('the error for a value ends with remarks, and keeps examples whole', () => {
    expect(messageWith({ price: 2 })).toBe('`price` must be dollars, not 2: { input: number }; see the docs.')
    expect(messageWith({ agent: {} })).toBe('`agent` must be an agent, or its name, not {}: 1 to 100 of [A-Za-z0-9._-].')
  })

  it('the error for a missing value says what is required', () => {
    expect(messageFor({})).toBe('`module` is required: the path of a module.')
    expect(messageFor(undefined)).toBe('The options must be an object, not undefined.')
    expect(messageFor('agents.ts')).toBe('The options must be an object, not "agents.ts".')
  })
})

describe('the error for an unknown name', () => {
  it.each([
    [{ proceses: 2 }, 'There is no option proceses: did you mean processes?'],
    [{ telemetry: { prometheus: { prt: 1 } } }, 'There is no option telemetry.prometheus.prt: did you mean telemetry.prometheus.port?'],
    [{ telemetry: { metrics: true } }, 'There is no option telemetry.metrics: the options are prometheus.'],
    [{ waitMs: 999 }, 'There is no option waitMs: did you mean wait?'],
  ])('the error for an unknown name names the options, or the nearest: %o', (given, message) => {
    expect(messageWith(given)).toBe(message)
  })
})

describe('the error for an option with alternatives', () => {
  it('the error for an option with alternatives names all of them if the value matches none', () => {
    expect(messageWith({ telemetry: true })).toBe('`telemetry` must be false or an object, not true.')
  })

  it('the error for an option with alternatives is that of the closest alternative', () => {
    expect(messageWith({ telemetry: { prometheus: { port: 70_000 } } })).toBe(
      '`telemetry.prometheus.port` must be an integer from 1 to 65,535, not 70,000.',
    )
    expect(messageWith({ on: [{ type: 'emitted' }, { type: 'spent', nam: 'x' }] })).toMatch(
      /^There is no option on\[1\]\.nam: did you mean/,
    )
  })
})
