import fc from 'fast-check'
import { expect, test } from 'vitest'
import { wellFormed } from '../../../src/session/well-formed.ts'

// Not in the types of es2023.
const toWellFormed = (text: string): string => (text as unknown as { toWellFormed(): string }).toWellFormed()

test('a well-formed text has U+FFFD for each lone surrogate and is otherwise the same', () => {
  const unit = fc.oneof(fc.constantFrom('\ud83d', '\ude80', '🚀', 'a', '\u0000'), fc.string({ unit: 'binary', maxLength: 1 }))
  fc.assert(
    fc.property(fc.string({ unit }), (text) => {
      expect(wellFormed(text)).toBe(toWellFormed(text))
    }),
  )
})
