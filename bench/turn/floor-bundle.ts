// The floor's workflow bundle, with and without eager dispatch.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker'
import { NO_EAGER } from './work.ts'

const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url))

/** Bundles both, and returns their paths. */
export async function bundleFloor(): Promise<{ on: string; off: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'pawl-bench-'))
  const bundle = async (name: string, workflowInterceptorModules: string[]) => {
    const { code } = await bundleWorkflowCode({
      workflowsPath: here('./floor-workflow.ts'),
      workflowInterceptorModules,
      logger: new DefaultLogger('WARN'),
    })
    const path = join(folder, name)
    await writeFile(path, code)
    return path
  }
  return { on: await bundle('eager.js', []), off: await bundle('no-eager.js', [NO_EAGER]), remove: () => rm(folder, { recursive: true }) }
}
