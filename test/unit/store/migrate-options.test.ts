// What `migrateStore` refuses before it connects.
import { expect, it } from 'vitest'
import { migrateStore, type MigrateOptions } from '../../../src/store/postgres/migrating.ts'

/** Nothing listens there. */
const postgres = 'postgres://127.0.0.1:1/x'

it.each<[string, unknown, string]>([
  ['no options', undefined, 'The options must be an object, not undefined.'],
  ['a misspelt name', { postgres, shema: 'x' }, 'There is no option shema: did you mean schema?'],
  ['a pool', { postgres: { connect: () => {} } }, '`postgres` must be a URL such as postgres://user@host/database'],
  ['text for a flag', { postgres, check: 'yes' }, '`check` must be true or false, not "yes".'],
  ['a number for a role', { postgres, appRole: 5 }, "`appRole` must be a role's name, not 5."],
  ['an empty role', { postgres, appRole: '' }, '`appRole` must be'],
  ['a number for a schema', { postgres, schema: 5 }, '`schema` must be'],
  ['a logger that logs nothing', { postgres, logger: {} }, '`logger` must be a logger'],
  ['a callback that is not a function', { postgres, onWait: 5 }, '`onWait` must be a function, not 5.'],
])('a migration is refused with %s', async (_, options, message) => {
  const refusal = { name: 'InvalidOptionError', code: 'invalid_option', message: expect.stringContaining(message) }
  await expect(migrateStore(options as MigrateOptions)).rejects.toMatchObject(refusal)
})

it.each(['', 'a-b', '1st', 'pg_pawl', 'x'.repeat(51)])(
  'a migration with the Postgres schema %j is refused with an explanation',
  async (schema) => {
    await expect(migrateStore({ postgres, schema })).rejects.toMatchObject({
      message: expect.stringMatching(/1 to 50 of \[A-Za-z0-9_\]|the name of a Postgres schema/),
    })
  },
)

it('a migration without a Postgres says how to configure one', async () => {
  await expect(migrateStore({ postgres: '' })).rejects.toMatchObject({ code: 'invalid_store_options' })
})
