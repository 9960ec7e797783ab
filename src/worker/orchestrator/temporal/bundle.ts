// The workflow bundle: the prebuilt one, or one bundled at startup for another SDK version or the user's own converter or interceptors.
import { createHash } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { DataConverter } from '@temporalio/common'
import { bundleWorkflowCode, type WorkerInterceptors, type WorkflowBundleOption } from '@temporalio/worker'
import { absoluteConverter } from '../../../connect/data-converter.ts'
import { defined } from '../../../session/defined.ts'
import { EXTENSION } from '../../extension.ts'
import { totalCodecs } from '../heartbeats/details.ts'

/** The workflow code of this build, and the data converter that belongs to it. */
export interface WorkflowCode {
  workflowBundle: WorkflowBundleOption
  dataConverter: DataConverter
}

/** Loads what workers run and a preflight replays. `buildId`: the name of this build, for operators. */
export async function workflowCode(user: {
  dataConverter?: DataConverter | undefined
  interceptors?: WorkerInterceptors | undefined
}): Promise<WorkflowCode & { buildId: string }> {
  const given = user.dataConverter && absoluteConverter(user.dataConverter)
  const {
    workflowBundle: bundle,
    payloadConverterPath,
    buildId,
  } = await workflowBundle({
    payloadConverterPath: given?.payloadConverterPath,
    failureConverterPath: given?.failureConverterPath,
    workflowInterceptors: user.interceptors?.workflowModules,
  })
  const payloadCodecs = given?.payloadCodecs && totalCodecs(given.payloadCodecs)
  return { workflowBundle: bundle, buildId, dataConverter: { ...given, payloadConverterPath, ...defined({ payloadCodecs }) } }
}

/** The options that decide whether the prebuilt bundle can be used. */
export interface BundleOptions {
  /** The user's own payload converter, which gets wrapped so that it never throws in the workflow. */
  payloadConverterPath?: string | undefined
  /** The user's own failure converter: if it encodes messages and stacks, it must do so in the workflow, too. */
  failureConverterPath?: string | undefined
  workflowInterceptors?: readonly string[] | undefined
}

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

/** Path of pawl's own payload converter. */
const TOTAL_CONVERTER = here(`../../../workflows/payload-converter.${EXTENSION}`)

/** The bundle to run, the payload converter that the worker must use with it, and the name of this build for operators. */
export interface Bundle {
  workflowBundle: WorkflowBundleOption
  payloadConverterPath: string
  buildId: string
}

/** Makes or finds the bundle. */
async function workflowBundle(options: BundleOptions): Promise<Bundle> {
  const { failureConverterPath } = options
  const prebuilt = await prebuiltBundle()
  const own =
    options.payloadConverterPath !== undefined || failureConverterPath !== undefined || (options.workflowInterceptors?.length ?? 0) > 0
  if (!own && prebuilt?.fits) {
    const buildId = buildIdOf(prebuilt.digest, prebuilt.version)
    return { workflowBundle: { codePath: here('../../../workflow-bundle.js') }, payloadConverterPath: TOTAL_CONVERTER, buildId }
  }
  const folder = await mkdtemp(join(tmpdir(), 'pawl-bundle-'))
  try {
    const payloadConverterPath =
      options.payloadConverterPath === undefined ? TOTAL_CONVERTER : await wrapConverter(folder, options.payloadConverterPath)
    const { code } = await bundleWorkflowCode({
      workflowsPath: here(`../../../workflows/index.${EXTENSION}`),
      preloadModules: [here(`../../../workflows/preloaded.${EXTENSION}`)],
      payloadConverterPath,
      ...defined({ failureConverterPath }),
      workflowInterceptorModules: [here(`../../../workflows/resets.${EXTENSION}`), ...(options.workflowInterceptors ?? [])],
      logger: SILENT,
    })
    const buildId = buildIdOf(createHash('sha256').update(code).digest('hex').slice(0, 8), prebuilt?.version)
    return { workflowBundle: { code }, payloadConverterPath: options.payloadConverterPath ?? TOTAL_CONVERTER, buildId }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Shown by Temporal for the worker, and in the history of each workflow task: the release, and the workflow code. */
function buildIdOf(digest: string, version = 'unreleased'): string {
  return `pawl@${version}+${digest}`
}

/** What `npm run build` recorded about its bundle, if there is one. `fits`: this SDK version made it; the SDK refuses any other bundle. */
async function prebuiltBundle(): Promise<{ version: string; digest: string; fits: boolean } | undefined> {
  try {
    const made = JSON.parse(await readFile(here('../../../workflow-bundle.json'), 'utf8')) as {
      sdk: string
      version: string
      digest: string
    }
    const { version: sdk } = createRequire(import.meta.url)('@temporalio/worker/package.json') as { version: string }
    return { version: made.version, digest: made.digest, fits: made.sdk === sdk }
  } catch {
    return undefined
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
