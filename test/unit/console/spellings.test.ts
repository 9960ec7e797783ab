import { expect, it } from 'vitest'
import { spellingsOf } from '../../../console/src/session/spellings.ts'

it('words are searched for as they are and as ids and tags join them, one word only as it is', () => {
  expect(spellingsOf(' Customer  42 ')).toEqual(['Customer  42', 'customer:42', 'customer-42', 'customer_42'])
  expect(spellingsOf('W-1042')).toEqual(['W-1042'])
})
