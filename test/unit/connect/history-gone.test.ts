// Histories that the server no longer has.
import { expect, it } from 'vitest'
import { isHistoryGone } from '../../../src/connect/histories.ts'

const failed = (code: number, details: string): Error => Object.assign(new Error(`${code}: ${details}`), { code, details, metadata: {} })

it('a history is gone if the server says so, also as a server that can read archives says it', () => {
  expect(isHistoryGone(failed(5, 'workflow execution not found'))).toBe(true)
  expect(isHistoryGone(failed(3, 'Requested workflow history not found, may have passed retention period.'))).toBe(true)
})

it('a history is not gone because a request for it was invalid, or the server is away', () => {
  expect(isHistoryGone(failed(3, 'Invalid RunId.'))).toBe(false)
  expect(isHistoryGone(failed(14, 'history not found'))).toBe(false)
  expect(isHistoryGone(new Error('history not found'))).toBe(false)
})
