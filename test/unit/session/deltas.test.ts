// Pieces of an answer: cutting them, joining them, and which values are valid.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { addDelta, type ModelDelta, sizeOf, soundDelta, textOfDelta, withoutFirst } from '../../../src/session/watching/deltas.ts'

const piece: fc.Arbitrary<ModelDelta> = fc
  .tuple(fc.constantFrom('text', 'thinking', 'tool_input', 'named'), fc.nat(2), fc.string({ minLength: 1, maxLength: 5 }))
  .map(([type, index, text]): ModelDelta => {
    if (type === 'text') return { type, index, text }
    if (type === 'thinking') return { type, index, thinking: text }
    return { type: 'tool_input', index, partialJson: text, ...(type === 'named' && { name: 'look' }) }
  })

const joined = (pieces: readonly ModelDelta[]): ModelDelta[] => {
  const all: ModelDelta[] = []
  for (const one of pieces) addDelta(all, one)
  return all
}
const size = (pieces: readonly ModelDelta[]): number => pieces.reduce((sum, one) => sum + sizeOf(one), 0)

describe('pieces of an answer', () => {
  it('pieces of an answer keep their text and their size when they are joined', () => {
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        expect(joined(pieces).map(textOfDelta).join('')).toBe(pieces.map(textOfDelta).join(''))
        expect(size(joined(pieces))).toBe(size(pieces))
      }),
    )
  })

  it('pieces of an answer cut at any position and joined again are the same', () => {
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), fc.nat(40), (pieces, given) => {
        const at = Math.min(given, size(pieces))
        const rest = withoutFirst(pieces, at)
        expect(size(rest)).toBe(size(pieces) - at)
        const text = pieces.map(textOfDelta).join('')
        expect(text.endsWith(rest.map(textOfDelta).join(''))).toBe(true)
        expect(withoutFirst(joined(pieces), at).map(textOfDelta).join('')).toBe(rest.map(textOfDelta).join(''))
      }),
    )
  })

  it('pieces of an answer name their tool once', () => {
    const named: ModelDelta = { type: 'tool_input', index: 1, partialJson: '{', name: 'look' }
    expect(withoutFirst([named], 0)).toEqual([named])
    expect(withoutFirst([named], 1)).toEqual([{ type: 'tool_input', index: 1, partialJson: '{' }])
    expect(withoutFirst([named], 2)).toEqual([])
    expect(joined([named, { type: 'tool_input', index: 1, partialJson: '}' }])).toEqual([{ ...named, partialJson: '{}' }])
  })

  it.each([
    ['nothing', undefined],
    ['a text', 'hello'],
    ['an unknown type', { type: 'image', index: 0 }],
    ['no index', { type: 'text', text: 'a' }],
    ['a broken index', { type: 'text', index: 0.5, text: 'a' }],
    ['a number for a text', { type: 'text', index: 0, text: 1 }],
    ['an empty text', { type: 'text', index: 0, text: '' }],
    ['empty arguments without a name', { type: 'tool_input', index: 0, partialJson: '' }],
  ])('pieces of an answer are not made of %s', (_, given) => {
    expect(soundDelta(given)).toBeUndefined()
  })

  it('pieces of an answer keep only the members that belong to them', () => {
    expect(soundDelta({ type: 'thinking', index: 0, thinking: 'hm', text: 'x' })).toEqual({ type: 'thinking', index: 0, thinking: 'hm' })
    expect(soundDelta({ type: 'tool_input', index: 0, partialJson: '', name: 'look' })).toEqual({
      type: 'tool_input',
      index: 0,
      partialJson: '',
      name: 'look',
    })
  })
})
