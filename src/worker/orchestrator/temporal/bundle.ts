// The workflow bundle: the prebuilt one, or one bundled at startup for another SDK version or the user's own converter or interceptors.
import { createHash } from 'node:crypto'
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
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
import { joinModules } from './joined-modules.ts'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

/** The user's code that a worker runs alongside pawl's own. */
export interface UserCode {
  dataConverter?: DataConverter | undefined
  interceptors?: WorkerInterceptors | undefined
  /** The folder with the bundle that the previous orchestrator made. Making one takes seconds, during which no session continues. */
  bundleFolder?: string | undefined
}

/** The workflow code of this build, and the data converter that belongs to it. */
export interface WorkflowCode {
  workflowBundle: WorkflowBundleOption
  dataConverter: DataConverter
}

/** Path of pawl's own payload converter. */
const TOTAL_CONVERTER = here(`../../../workflows/payload-converter.${EXTENSION}`)

/** The data converter for everything outside the workflow code. */
export function outerConverter({ dataConverter }: UserCode): DataConverter {
  const given = dataConverter && absoluteConverter(dataConverter)
  const payloadCodecs = given?.payloadCodecs && totalCodecs(given.payloadCodecs)
  return { ...given, payloadConverterPath: given?.payloadConverterPath ?? TOTAL_CONVERTER, ...defined({ payloadCodecs }) }
}

/** Loads what workers run and a preflight replays. `buildId`: the name of this build, for operators. */
export async function workflowCode(user: UserCode): Promise<WorkflowCode & { buildId: string }> {
  return { ...(await workflowBundle(user)), dataConverter: outerConverter(user) }
}

/** Makes or finds the bundle. */
async function workflowBundle(user: UserCode): Promise<{ workflowBundle: WorkflowBundleOption; buildId: string }> {
  const { payloadConverterPath: own, failureConverterPath } = (user.dataConverter && absoluteConverter(user.dataConverter)) ?? {}
  const modules: Modules = { own, failureConverterPath, workflowInterceptors: user.interceptors?.workflowModules ?? [] }
  const prebuilt = await prebuiltBundle()
  const isOwn = own !== undefined || failureConverterPath !== undefined || modules.workflowInterceptors.length > 0
  if (!isOwn && prebuilt?.fits) {
    return { workflowBundle: { codePath: here('../../../workflow-bundle.js') }, buildId: buildIdOf(prebuilt.digest, prebuilt.version) }
  }
  const code = await bundledOnce(modules, user.bundleFolder)
  const digest = createHash('sha256').update(code).digest('hex').slice(0, 8)
  return { workflowBundle: { code }, buildId: buildIdOf(digest, prebuilt?.version) }
}

/** The user's modules that a bundle contains. */
interface Modules {
  own: string | undefined
  failureConverterPath: string | undefined
  workflowInterceptors: string[]
}

const bundled = new Map<string, Promise<string>>()

/** Bundles the same modules only once per process, which has one build of them, and once per worker. */
function bundledOnce(modules: Modules, folder: string | undefined): Promise<string> {
  const key = JSON.stringify(modules)
  const known = bundled.get(key)
  if (known) return known
  const made = folder === undefined ? bundle(modules) : foundOrMade(join(folder, 'workflow-bundle.js'), () => bundle(modules))
  bundled.set(key, made)
  made.catch(() => bundled.delete(key))
  return made
}

async function foundOrMade(path: string, make: () => Promise<string>): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch {
    const code = await make()
    // Written under another name first, because an orchestrator may die while it writes.
    await writeFile(`${path}.${process.pid}`, code)
    await rename(`${path}.${process.pid}`, path)
    return code
  }
}

async function bundle({ own, failureConverterPath, workflowInterceptors }: Modules): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'pawl-bundle-'))
  try {
    const { code } = await bundleWorkflowCode({
      workflowsPath: here(`../../../workflows/index.${EXTENSION}`),
      preloadModules: [here(`../../../workflows/preloaded.${EXTENSION}`)],
      // Wrapped, so that it never throws in the workflow.
      payloadConverterPath: own === undefined ? TOTAL_CONVERTER : await wrapConverter(folder, own),
      // If this converter encodes messages and stacks, it must do so in the workflow, too.
      ...defined({ failureConverterPath }),
      workflowInterceptorModules: [
        here(`../../../workflows/resets.${EXTENSION}`),
        here(`../../../workflows/current-details.${EXTENSION}`),
        ...workflowInterceptors,
      ],
      webpackConfigHook: joinModules,
      logger: SILENT,
    })
    return code
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Identifies the release and the workflow code. Temporal shows it for the worker and for each workflow task in a history. */
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
