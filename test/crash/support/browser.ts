// Headless Chromium. Test files that run side by side share the unpacked program.
import { existsSync } from 'node:fs'
import { mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sparticuz from '@sparticuz/chromium'
import { type Browser, chromium } from 'playwright-core'

/** `env`: for the browser; default: that of this process. */
export async function startBrowser(env: Record<string, string> = {}): Promise<Browser> {
  // As a single process, which Lambda needs, the browser would end with its first page.
  const args = sparticuz.args.filter((arg) => !['--single-process', '--no-zygote'].includes(arg))
  return chromium.launch({ executablePath: await unpacked(), args, env: { ...(process.env as Record<string, string>), ...env } })
}

/** The program; a folder that has its final name is complete. */
async function unpacked(): Promise<string> {
  const folder = join(tmpdir(), 'pawl-chromium')
  if (!existsSync(folder)) {
    const own = await mkdtemp(`${folder}-`)
    await unpackInto(own)
    // Another process may have been faster.
    await rename(own, folder).catch(() => rm(own, { recursive: true }))
  }
  return join(folder, 'chromium')
}

/** The package unpacks into the folder for temporary files, which it looks up at once, and takes a file that is being written for complete. */
function unpackInto(folder: string): Promise<string> {
  const { TMPDIR } = process.env
  process.env.TMPDIR = folder
  try {
    return sparticuz.executablePath()
  } finally {
    if (TMPDIR === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = TMPDIR
  }
}
