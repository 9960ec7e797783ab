// The examples of docs/files.md, compiled and run by our tests.
// #region send
import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import type { UserBlock } from 'pawl'
import type { SessionHandle } from 'pawl/client'

export async function pdfBlock(path: string): Promise<UserBlock> {
  const data = await readFile(path, 'base64')
  return { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data }, title: basename(path) }
}

export async function askAbout(session: SessionHandle, path: string, question: string): Promise<string> {
  const run = await session.send([await pdfBlock(path), { type: 'text', text: question }])
  return (await run.result()).text
}
// #endregion

// #region tool
import { defineTool } from 'pawl'
import { z } from 'zod'

interface Archive {
  invoice(id: string): Promise<Uint8Array>
}

export const readInvoice = defineTool.withTypes<{ services: { archive: Archive } }>()({
  name: 'read_invoice',
  description: 'The invoice with this number, as a PDF.',
  input: z.object({ id: z.string() }),
  effect: 'read',
  async execute({ id }, ctx) {
    const data = Buffer.from(await ctx.services.archive.invoice(id)).toString('base64')
    return [{ type: 'document', source: { type: 'base64', media_type: 'application/pdf', data }, title: `${id}.pdf` }]
  },
})
// #endregion
