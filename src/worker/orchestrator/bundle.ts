// The workflow bundle: the prebuilt one, or one bundled at the start for another SDK version or the user's own converter or interceptors.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundleWorkflowCode, type WorkflowBundleOption } from '@temporalio/worker'
import { defined } from '../../session/defined.ts'

/** The options that decide whether the prebuilt bundle can be used. */
export interface BundleOptions {
  /** The user's own payload converter, which gets wrapped so that it never throws in the workflow. */
  payloadConverterPath?: string | undefined
  /** The user's own failure converter: if it encodes messages and stacks, it must do so in the workflow, too. */
  failureConverterPath?: string | undefined
  workflowInterceptors?: readonly string[] | undefined
}

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'

/** Path of pawl's own payload converter. */
const TOTAL_CONVERTER = here(`../../workflows/payload-converter.${extension}`)

/** The bundle to run, and the payload converter that the worker must use with it. */
export async function workflowBundle(
  options: BundleOptions,
): Promise<{ workflowBundle: WorkflowBundleOption; payloadConverterPath: string }> {
  const { failureConverterPath } = options
  const own =
    options.payloadConverterPath !== undefined || failureConverterPath !== undefined || (options.workflowInterceptors?.length ?? 0) > 0
  if (!own && (await prebuiltFits())) {
    return { workflowBundle: { codePath: here('../../workflow-bundle.js') }, payloadConverterPath: TOTAL_CONVERTER }
  }
  const folder = await mkdtemp(join(tmpdir(), 'pawl-bundle-'))
  try {
    const payloadConverterPath =
      options.payloadConverterPath === undefined ? TOTAL_CONVERTER : await wrapConverter(folder, options.payloadConverterPath)
    const { code } = await bundleWorkflowCode({
      workflowsPath: here(`../../workflows/index.${extension}`),
      preloadModules: [here(`../../workflows/preloaded.${extension}`)],
      payloadConverterPath,
      ...defined({ failureConverterPath }),
      workflowInterceptorModules: [here(`../../workflows/resets.${extension}`), ...(options.workflowInterceptors ?? [])],
      logger: SILENT,
    })
    return { workflowBundle: { code }, payloadConverterPath: options.payloadConverterPath ?? TOTAL_CONVERTER }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** The SDK refuses a bundle that was made by another version. */
async function prebuiltFits(): Promise<boolean> {
  try {
    const { sdk } = JSON.parse(await readFile(here('../../workflow-bundle.json'), 'utf8')) as { sdk: string }
    const { version } = createRequire(import.meta.url)('@temporalio/worker/package.json') as { version: string }
    return sdk === version
  } catch {
    return false
  }
}

async function wrapConverter(folder: string, inner: string): Promise<string> {
  const path = join(folder, 'payload-converter.js')
  const code = [
    `import { payloadConverter as inner } from ${JSON.stringify(inner)}`,
    `import { totalConverter } from ${JSON.stringify(TOTAL_CONVERTER)}`,
    'export const payloadConverter = totalConverter(inner)',
  ]
  await writeFile(path, `${code.join('\n')}\n`)
  return path
}

const ignore = (): void => undefined
const SILENT = { log: ignore, trace: ignore, debug: ignore, info: ignore, warn: ignore, error: ignore }
