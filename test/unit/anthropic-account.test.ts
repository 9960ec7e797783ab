// The account of a Claude model, which is stored when its rate gate is shut. It distinguishes keys and addresses, but contains neither.
import { expect, it } from 'vitest'
import { anthropic } from '../../src/models/index.ts'

const accountOf = (apiKey: string, baseURL = 'https://api.example') => anthropic('claude-sonnet-5-5', { apiKey, baseURL }).account ?? ''

it('the account of a Claude model depends only on its key and address', () => {
  const accounts = [accountOf('sk-one'), accountOf('sk-two'), accountOf('sk-one', 'https://proxy.example')]
  expect(new Set(accounts).size).toBe(3)
  expect(anthropic('claude-opus-4-8', { apiKey: 'sk-one', baseURL: 'https://api.example' }).account).toBe(accounts[0])
})

it('the account of a Claude model does not contain the key', () => {
  expect(accountOf('sk-one')).toMatch(/^[0-9a-f]{12}$/)
})
