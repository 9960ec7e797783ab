// What counts as a secret in a log line.
import { describe, expect, it } from 'vitest'
import { secretsBy } from '../../../src/log/secrets.ts'

describe('a name', () => {
  it.each(['password', 'newPassword', 'db_password', 'token', 'accessToken', 'refresh-token', 'secret', 'client_secret', 'secrets'])(
    'a name such as %s is secret',
    (name) => expect(secretsBy([])(['args', name])).toBe(true),
  )

  it.each(['apiKey', 'api_key', 'X-API-Key', 'stripeApiKey', 'Authorization', 'cookie', 'set-cookie', 'credentials', 'privateKey', 'cvc'])(
    'a name such as %s is secret',
    (name) => expect(secretsBy([])([name])).toBe(true),
  )

  it.each(['inputTokens', 'maxTokens', 'session', 'key', 'orderId', 'secretary', 'passenger', 'author'])(
    'a name such as %s is not secret',
    (name) => expect(secretsBy([])(['args', name])).toBe(false),
  )
})

describe('an added name', () => {
  const isSecret = secretsBy(['email', 'customer.phone'])

  it('an added name applies at any depth, regardless of case and separators', () => {
    expect(isSecret(['email'])).toBe(true)
    expect(isSecret(['args', 'customer', 'E-Mail'])).toBe(true)
  })

  it('an added name with dots applies to the ends of paths', () => {
    expect(isSecret(['args', 'customer', 'phone'])).toBe(true)
    expect(isSecret(['args', 'shop', 'phone'])).toBe(false)
    expect(isSecret(['phone'])).toBe(false)
  })

  it.each(['', '*.email', 'customers[0].phone', 'a..b'])('an added name %j is refused', (name) => {
    expect(() => secretsBy([name])).toThrow(expect.objectContaining({ code: 'invalid_option' }))
  })
})
