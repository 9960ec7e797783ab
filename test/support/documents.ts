// PDFs of any size: their beginning, trailer and end are real, and the rest is filler that does not compress.
import { createHash } from 'node:crypto'
import type { DocumentBlock } from '../../src/session/content.ts'

interface PdfOptions {
  /** Bytes. */
  size?: number
  encrypted?: boolean
  /** Distinguishes PDFs of one size. */
  seed?: string
}

/** The bytes of a PDF. */
export function pdfBytes({ size = 0, encrypted = false, seed = '' }: PdfOptions = {}): Buffer {
  const begin = `%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [] /Count 0 >>\nendobj\n% ${seed}\n`
  const end = `\nxref\n0 3\ntrailer\n<< /Size 3 /Root 1 0 R ${encrypted ? '/Encrypt 9 0 R /ID [<00><00>]' : '/ID [<00><00>]'} >>\nstartxref\n9\n%%EOF\n`
  return Buffer.concat([Buffer.from(begin), filler(size - begin.length - end.length, seed), Buffer.from(end)])
}

function filler(size: number, seed: string): Buffer {
  if (size <= 0) return Buffer.alloc(0)
  let block = createHash('sha512').update(seed).digest()
  const blocks: Buffer[] = []
  for (let made = 0; made < size; made += block.length) {
    blocks.push(block)
    block = createHash('sha512').update(block).digest()
  }
  return Buffer.concat(blocks).subarray(0, size)
}

/** A document block with a PDF. */
export function pdfBlock({ title, ...options }: PdfOptions & { title?: string } = {}): DocumentBlock {
  const source = { type: 'base64' as const, media_type: 'application/pdf' as const, data: pdfBytes(options).toString('base64') }
  return { type: 'document', source, ...(title !== undefined && { title }) }
}

/** A document block with text. */
export function textDocument(data: string, title?: string): DocumentBlock {
  return { type: 'document', source: { type: 'text', media_type: 'text/plain', data }, ...(title !== undefined && { title }) }
}
