// Documents: which files no model can read, what a document is called where it is not shown, and which block a file becomes.
import { describe, expect, it } from 'vitest'
import { documentProblem, isDocument, labelOf } from '../../../src/session/content.ts'
import { blockOfFile } from '../../../src/session/file-block.ts'
import { isBlocks } from '../../../src/session/transcript/results.ts'
import { pdfBlock, pdfBytes, textDocument } from '../../support/documents.ts'
import { imageBytes } from '../../support/images.ts'

const base64 = (bytes: string | Uint8Array): string => Buffer.from(bytes as Uint8Array).toString('base64')

describe('a document that no model can read', () => {
  it('a PDF is found to be encrypted, wherever its trailer begins in its bytes', () => {
    for (let shift = 0; shift < 6; shift++) {
      const pdf = { size: 5_000 + shift, seed: 'x'.repeat(shift) }
      expect(documentProblem(pdfBlock(pdf).source)).toBeUndefined()
      expect(documentProblem(pdfBlock({ ...pdf, encrypted: true }).source)).toMatchObject({ code: 'encrypted_file' })
    }
  })

  it('a PDF that contains the name of an encryption in its text is not encrypted', () => {
    const text = `%PDF-1.7\n${'about '.repeat(800)}/Encrypt 5 0 R${' and so on'.repeat(500)}\n<< /Root 1 0 R >>`
    expect(documentProblem({ type: 'base64', media_type: 'application/pdf', data: base64(text) })).toBeUndefined()
  })

  it('a PDF is checked quickly, however often it contains the name of an encryption', () => {
    const data = base64(`%PDF-1.7\n${'/Encrypt '.repeat(110_000)}is a name.\n<< /Root 1 0 R >>`)
    const began = performance.now()
    expect(documentProblem({ type: 'base64', media_type: 'application/pdf', data })).toBeUndefined()
    expect(performance.now() - began).toBeLessThan(5_000)
  })

  it('bytes that are not a PDF, an incomplete base64 text, blank text and a broken URL have a reason', () => {
    const pdf = (data: string) => documentProblem({ type: 'base64', media_type: 'application/pdf', data })
    expect(pdf(base64('<html>404</html>'))).toMatchObject({ code: 'invalid_file', reason: expect.stringContaining('not a PDF') })
    expect(pdf(base64(pdfBytes()).slice(0, -1))).toMatchObject({ code: 'invalid_file', reason: expect.stringContaining('base64') })
    expect(pdf('')).toMatchObject({ code: 'invalid_file' })
    expect(documentProblem(textDocument(' \n').source)).toMatchObject({ code: 'invalid_file', reason: 'It has no text.' })
    expect(documentProblem({ type: 'url', url: 'https://' })).toMatchObject({ code: 'invalid_file' })
    expect(documentProblem({ type: 'file', file_id: 'file_1' })).toBeUndefined()
  })

  it('a document has the members of its kind and no others', () => {
    const source = { type: 'text', media_type: 'text/plain', data: 'a' }
    expect(isDocument({ type: 'document', source, title: 'a.txt', context: 'c', citations: { enabled: true } })).toBe(true)
    const wrong = [
      { type: 'document' },
      { type: 'document', source, name: 'a.txt' },
      { type: 'document', source, title: 5 },
      { type: 'document', source, title: 'x'.repeat(501) },
      { type: 'document', source, citations: true },
      { type: 'document', source: { type: 'base64', media_type: 'application/zip', data: 'UEsDBA==' } },
      { type: 'document', source: { type: 'file', file_id: '' } },
      { type: 'document', source: { type: 'url', url: 'file:///etc/passwd' } },
    ]
    for (const block of wrong) expect(isDocument(block)).toBe(false)
    expect(isBlocks([{ type: 'text', text: 'Here.' }, pdfBlock({ title: 'a.pdf' })] as never)).toBe(true)
  })
})

it('a document is called by its name, its type and its size where it is not shown', () => {
  expect(labelOf(pdfBlock({ title: 'a "b".pdf', size: 120_000 }))).toBe('[document "a \\"b\\".pdf", PDF, 120 KB]')
  expect(labelOf(textDocument('abc'))).toBe('[document, text, 3 bytes]')
  expect(labelOf({ type: 'document', source: { type: 'url', url: 'https://example.com/a.pdf' } })).toBe(
    '[document, https://example.com/a.pdf]',
  )
  expect(labelOf({ type: 'document', source: { type: 'file', file_id: 'file_1' }, title: 'b' })).toBe('[document "b", file file_1]')
})

describe('a file', () => {
  it('a file becomes the block for its bytes, regardless of its declared type', () => {
    const png = base64(imageBytes('image/png'))
    expect(blockOfFile({ data: png, mediaType: 'application/pdf' })).toMatchObject({ type: 'image', source: { media_type: 'image/png' } })
    const pdf = base64(pdfBytes())
    expect(blockOfFile({ data: pdf, mediaType: 'application/octet-stream', title: 'a.pdf' })).toEqual(pdfBlock({ title: 'a.pdf' }))
    expect(blockOfFile({ data: base64('a,b\n1,€'), mediaType: 'text/csv', title: 'a.csv' })).toEqual(textDocument('a,b\n1,€', 'a.csv'))
    expect(blockOfFile({ data: base64('{}'), mediaType: 'application/json; charset=utf-8' })).toEqual(textDocument('{}'))
    expect(blockOfFile({ data: base64('plain') })).toEqual(textDocument('plain'))
  })

  it('a file that claims to be a PDF or an image becomes such a block, which is refused with the reason', () => {
    expect(blockOfFile({ data: base64('<html>'), mediaType: 'application/pdf' })).toMatchObject({ type: 'document' })
    expect(blockOfFile({ data: base64('<html>'), mediaType: 'image/png' })).toMatchObject({ type: 'image' })
  })

  it('a file that is neither an image, a PDF nor text becomes no block', () => {
    expect(blockOfFile({ data: base64(Uint8Array.of(0x50, 0x4b, 3, 4, 0xff)), title: 'a.docx' })).toBeUndefined()
    expect(blockOfFile({ data: base64('RIFF'), mediaType: 'audio/wav' })).toBeUndefined()
    expect(blockOfFile({ data: base64('a\0b'), mediaType: 'text/plain' })).toBeUndefined()
  })
})
