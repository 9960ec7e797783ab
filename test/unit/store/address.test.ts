// The address of Postgres: one that can never work is refused at once, and what is shown has no password.
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { addressOf, checkPostgresUrl } from '../../../src/store/postgres/address.ts'
import { openStore } from '../../../src/store/index.ts'

describe('an address', () => {
  it.each([
    'postgres://pawl:secret@127.0.0.1:5432/pawl',
    'postgresql://db.internal/pawl?sslmode=verify-full',
    'POSTGRES://h/x',
    'postgres:///pawl',
    'postgres://user@/pawl?host=/var/run/postgresql',
    'postgres://%2Fvar%2Frun%2Fpostgresql/pawl',
    'socket:/var/run/postgresql?db=pawl',
    '/var/run/postgresql pawl',
    'postgres://127.0.0.1:1/x',
  ])('an address %s is accepted: whether it answers is another question', (url) => {
    expect(() => checkPostgresUrl(url)).not.toThrow()
  })

  it.each([
    ['foo', '"foo" is not'],
    ['mysql://root:secret@127.0.0.1/pawl', '"mysql://…" is not'],
    ['https://pawl:secret@example.com', '"https://…" is not'],
    ['postgres://pawl:secret@127.0.0.1:port/pawl', '"postgres://…" is not'],
    ['postgres://pawl:secret@127.0.0.1:99999/pawl', '"postgres://…" is not'],
    ['host=127.0.0.1 password=secret', 'The given text is not'],
    ['postgres://u:secret@h/x?sslrootcert=/does/not/exist.pem', 'ENOENT'],
  ])('an address %s is refused when the store is opened, without its password', (url, says) => {
    const error = thrownBy(() => openStore({ postgres: url }))
    expect(error).toMatchObject({ name: 'StoreError', code: 'invalid_postgres_url' })
    expect(String(error)).toContain(says)
    expect(String(error)).not.toContain('secret')
  })

  it.each([
    'postgres://app:S3cr#tPart@127.0.0.1:5999/app',
    'postgres://app:p@ss#S3cr@127.0.0.1:5999/app',
    'postgres://app:S3cr/tPart@127.0.0.1:5999/app',
    'postgres://app:12/S3cr@127.0.0.1:5999/app',
    'postgres://app:S3cr?tPart@127.0.0.1:5999/app',
    'postgres://app:12?S3cr@127.0.0.1:5999/app',
    'postgres://app:p@ss/S3cr@127.0.0.1:5999/app',
    'postgres://app:p@ss?S3cr@127.0.0.1:5999/app',
    'postgresql://app:%S3cr/@127.0.0.1/app?sslmode=require',
    'postgres://app:/S3cr/#?@127.0.0.1/app',
  ])('an address %s has a password that must be percent-encoded, and the refusal says so without showing any of it', (url) => {
    const error = thrownBy(() => openStore({ postgres: url }))
    expect(error).toMatchObject({ code: 'invalid_postgres_url' })
    expect(String(error)).toContain('percent-encoded')
    for (const part of ['S3cr', 'tPart', 'p@ss', 'at ss', '12']) expect(String(error)).not.toContain(part)
  })

  it.each([
    'postgres://app:p@ss:w0rd@127.0.0.1:5999/app',
    'postgres://app:w0rd%@127.0.0.1:5999/app',
    `postgres://app:${encodeURIComponent('@:/?#%')}@127.0.0.1:5999/app`,
    'postgres://127.0.0.1/app?user=app@server&sslmode=require',
    'postgres://app:secret@127.0.0.1/app?application_name=a@b',
  ])('an address %s is accepted, and leads to the host that it names', (url) => {
    expect(() => checkPostgresUrl(url)).not.toThrow()
    expect(addressOf({ connectionString: url })).toMatch(/^127\.0\.0\.1:\d+\/app$/)
  })

  it('an address is shown as host, port and database', () => {
    expect(addressOf({ connectionString: 'postgres://pawl:secret@127.0.0.1:5433/x' })).toBe('127.0.0.1:5433/x')
    expect(addressOf({ connectionString: 'postgres://pawl:secret@db/x' })).toBe('db:5432/x')
    expect(addressOf(new pg.Pool({ host: '/tmp', user: 'me', password: 'secret', database: 'x' }).options)).toBe('/tmp/x')
  })
})

function thrownBy(work: () => unknown): unknown {
  try {
    return work()
  } catch (error) {
    return error
  }
}
