// What a document's bytes show: whether they are a PDF that a model can read. Providers refuse any other.
import { bytesAt, isBase64 } from './image.ts'

/** `%PDF-` in base64. Readers of PDF allow other bytes before it, but providers do not. */
const PDF_BEGINS = /^JVBERi0/

/** Whether the base64 text is that of a PDF, by its first bytes. */
export function isPdf(data: string): boolean {
  return PDF_BEGINS.test(data)
}

/**
 * Why no model can read the PDF with these bytes. `invalid`: the text is not the base64 of a PDF; `encrypted`: a password or a permission
 * protects it, and providers refuse such files.
 */
export function pdfProblem(data: string): 'base64' | 'invalid' | 'encrypted' | undefined {
  if (!isBase64(data)) return 'base64'
  if (!isPdf(data)) return 'invalid'
  return isEncrypted(data) ? 'encrypted' : undefined
}

/** `/Encrypt` in base64, for each offset of its first byte in a group of three, without the characters that its neighbours change. */
const ENCRYPT = [
  { text: 'L0VuY3J5cH', at: 0 },
  { text: '9FbmNyeXB0', at: 2 },
  { text: 'vRW5jcnlwd', at: 3 },
]
/** A trailer's dictionary is short. */
const NEARBY_BYTES = 1_500
/** Trailers are at the end; a text may contain the name any number of times. */
const MAX_LOOKS = 20
const IN_DICTIONARY = /\/Encrypt\s*(?:\d+\s+\d+\s+R|<<)/

/**
 * Whether the PDF's trailer names an encryption. Searches the base64 text, because decoding megabytes takes long, and decodes only what is
 * near the name: the trailer also names the document's root.
 */
function isEncrypted(data: string): boolean {
  for (const { text, at } of ENCRYPT) {
    let looks = 0
    for (let found = data.lastIndexOf(text); found >= 0; found = found > 0 ? data.lastIndexOf(text, found - 1) : -1) {
      if (found % 4 !== at) continue
      if (++looks > MAX_LOOKS) break
      const from = Math.max(0, Math.floor(found / 4) * 3 - NEARBY_BYTES)
      const near = String.fromCharCode(...bytesAt(data, from, 2 * NEARBY_BYTES))
      if (IN_DICTIONARY.test(near) && near.includes('/Root')) return true
    }
  }
  return false
}
