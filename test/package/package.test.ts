// The package as users get it: packed, installed, imported, required, type-checked, bundled, and running.
import { spawn } from 'node:child_process'
import { access, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Metafile } from 'esbuild'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { findNode } from '../support/node-versions.ts'
import { size } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { answerOf, type Consumer, makeConsumer, run, wouldInstall } from './consumers.ts'

const TSC = fileURLToPath(new URL('../../node_modules/.bin/tsc', import.meta.url))
const NODE_TYPES = dirname(fileURLToPath(import.meta.resolve('@types/node/package.json')))
const NAMES = {
  pawl: ['PawlError', 'ToolError', 'defineAgent', 'defineTool', 'defineWorker'],
  client: ['Pawl', 'RunFailedError', 'RunInterruptedError', 'MessageRejectedError'],
  worker: ['createWorker', 'runWorker', 'superviseWorkers'],
  models: ['aiSdk', 'anthropic'],
  tools: ['fromAiSdk'],
  service: ['createHandler', 'nodeListener', 'ServiceError'],
  testing: ['scripted', 'startStack'],
}
type Names = typeof NAMES

const { databaseUrl, namespace, temporalAddress } = inject('stack')
const env = { TEMPORAL_ADDRESS: temporalAddress, TEMPORAL_NAMESPACE: namespace, DATABASE_URL: databaseUrl }
/** The Node that runs this, and releases of the other versions that pawl supports. */
const NODES = [process.versions.node, '22.23.3', '24.21.0']

let consumer: Consumer
beforeAll(async () => {
  consumer = await makeConsumer()
})
afterAll(() => consumer?.remove())

it('the packed package needs no AI SDK', async () => {
  await expect(access(join(consumer.folder, 'node_modules/@ai-sdk'))).rejects.toMatchObject({ code: 'ENOENT' })
})

describe.each(NODES)('Node %s', (version) => {
  const isThis = version === process.versions.node
  /** Most of this depends little on the version of Node: outside the soak, the others only run a worker. */
  const isWhole = size(isThis, true)
  let node: string | undefined
  let project: Consumer

  beforeAll(async () => {
    node = isThis ? process.execPath : await findNode(version)
    project = node && isWhole && !isThis ? await makeConsumer(node) : consumer
  })
  afterAll(async () => {
    if (project !== consumer) await project.remove()
  })

  it.runIf(isWhole)(
    `Node ${version} is one that the packed package and its dependencies support, as npm reads their manifests`,
    ({ skip }) => {
      if (!node) return skip()
      expect(project.npmSaid).not.toContain('EBADENGINE')
    },
  )

  it.runIf(isWhole)(`npm ci in a clone under Node ${version} prints no warning`, async ({ skip }) => {
    if (!node) return skip()
    const said = await wouldInstall(node)
    expect(said).toMatch(/^added \d+ packages/m)
    expect(said).not.toMatch(/^npm warn/im)
  })

  it.runIf(isWhole)(`an ESM project under Node ${version} imports the packed package`, async ({ skip }) => {
    if (!node) return skip()
    expectNames(answerOf<Names>(await project.node(['import.mjs'], { node })))
  })

  it.runIf(isWhole)(`a CommonJS project under Node ${version} requires the packed package`, async ({ skip }) => {
    if (!node) return skip()
    expectNames(answerOf<Names>(await project.node(['require.cjs'], { node })))
  })

  it.runIf(isWhole)(`a worker in its user's process serves an agent under Node ${version}`, async ({ skip }) => {
    if (!node) return skip()
    expect(await answerUnder(node, 'in-process')).toEqual({ node: version, text: expect.stringMatching(/^They make .*5/) })
  })

  it(`supervised processes serve an agent under Node ${version}`, async ({ skip }) => {
    if (!node) return skip()
    expect(await answerUnder(node, 'supervised')).toEqual({ node: version, text: expect.stringMatching(/^They make .*5/) })
  })

  async function answerUnder(executable: string, worker: 'in-process' | 'supervised'): Promise<unknown> {
    const settings = { ...env, TASK_QUEUE: `package-${worker}-${version}-${process.pid}`, WORKER: worker }
    return answerOf(await project.node(['ask.mjs'], { node: executable, env: settings }))
  }
})

describe('the packed package', () => {
  it('the packed package has the expected types in a strict project, with each moduleResolution and skipLibCheck', async () => {
    const resolutions = [
      { module: 'nodenext', moduleResolution: 'nodenext' },
      { module: 'esnext', moduleResolution: 'bundler' },
    ]
    const settings = resolutions.flatMap((resolution) => [true, false].map((skipLibCheck) => ({ ...resolution, skipLibCheck })))
    expect(await complaintsAbout(['types.ts', 'backend.ts'], ...settings)).toEqual([])
  })

  it('the packed package names the inferred type of everything that a project declares or the client returns', async () => {
    expect(await complaintsAbout(['declared.ts'], { module: 'nodenext', skipLibCheck: true, declaration: true })).toEqual([])
  })

  it('the packed package fails the type check if a case compiles that must not', async () => {
    const cases = await readFile(join(consumer.folder, 'types.ts'), 'utf8')
    await writeFile(join(consumer.folder, 'mistaken.ts'), cases.replaceAll('paymets', 'payments').replace("'suport'", "'support'"))
    const complaints = await complaintsAbout(['mistaken.ts'], { module: 'nodenext', skipLibCheck: true })
    expect(complaints.filter((line) => line.includes("Unused '@ts-expect-error'"))).toHaveLength(7)
  })

  it('the packed package lets a project type ctx.services once for all tools', async () => {
    await writeFile(
      join(consumer.folder, 'augmented.ts'),
      `import { defineTool } from 'pawl'
import { z } from 'zod'
declare module 'pawl' {
  interface Services { payments: { refund(id: string): string } }
}
const common = { name: 'refund', description: 'Refund.', input: z.object({ id: z.string() }), effect: 'external' } as const
defineTool({ ...common, execute: ({ id }, ctx) => ctx.services.payments.refund(id) })
// @ts-expect-error The service's name is misspelt.
defineTool({ ...common, execute: ({ id }, ctx) => ctx.services.paymets.refund(id) })
`,
    )
    expect(await complaintsAbout(['augmented.ts'], { module: 'nodenext', skipLibCheck: true })).toEqual([])
  })

  it('a project can check the declarations of all entries, and of other packages, as the getting-started guide says', async () => {
    // The newest @types/node is there: other packages depend on it.
    expect(Number((await manifestOf('@types/node/package.json')).version?.split('.')[0])).toBeGreaterThanOrEqual(26)
    const compilerOptions = { strict: true, module: 'nodenext', allowImportingTsExtensions: true, noEmit: true, types: ['node'] }
    const entries = ['pawl', ...Object.keys((await exportsOf()).entries).map((name) => `pawl/${name}`)]
    const imports = entries.map((entry, index) => `import * as entry${index} from '${entry}'\nconsole.log(entry${index})\n`)
    await writeFile(join(consumer.folder, 'agents.mts'), `${firstProgram(await guide('getting-started.md'))}\n`)
    await writeFile(
      join(consumer.folder, 'caller.mts'),
      `${imports.join('')}import { agents } from './agents.mts'\nawait entry0.PawlError\nconsole.log(agents)\n`,
    )
    await writeFile(join(consumer.folder, 'tsconfig.caller.json'), JSON.stringify({ compilerOptions, files: ['caller.mts'] }))
    const { stdout } = await consumer.node([TSC, '--singleThreaded', '-p', 'tsconfig.caller.json'])
    expect(entries).toContain('pawl/worker')
    expect(stdout).toBe('')
  })

  it('the packed package brings its guides, and llms.txt, which leads to each of them', async () => {
    const root = join(consumer.folder, 'node_modules/pawl')
    const index = await readFile(join(root, 'llms.txt'), 'utf8')
    expect(index).toMatch(/^# pawl\n\n> /)
    const linked = [...index.matchAll(/\]\(([^)#]+)\)/g)].map(([, path = '']) => path)
    for (const path of linked) await access(join(root, path))
    const guides = (await readdir(join(root, 'docs'))).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)
    expect(guides.length).toBeGreaterThan(20)
    expect(guides.filter((path) => !linked.includes(path))).toEqual([])
    // What guides refer to is there as well.
    const dead: string[] = []
    const internals = (await readdir(join(root, 'docs/internals'))).map((name) => `docs/internals/${name}`)
    for (const path of ['README.md', 'ARCHITECTURE.md', 'llms.txt', ...guides, ...internals]) {
      for (const target of linksIn(await readFile(join(root, path), 'utf8'))) {
        await access(join(root, dirname(path), target)).catch(() => dead.push(`${path}: ${target}`))
      }
    }
    expect(dead).toEqual([])
  })

  it('the packed package runs the pawl command', async () => {
    const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }
    const { code, stdout } = await consumer.node([join(consumer.folder, 'node_modules/.bin/pawl'), '--version'])
    expect({ code, stdout: stdout.trim() }).toEqual({ code: 0, stdout: version })
  })

  it('the packed package has a workflow bundle that the installed SDK accepts', async () => {
    const [bundle, sdk] = await Promise.all([manifestOf('pawl/dist/workflow-bundle.json'), manifestOf('@temporalio/worker/package.json')])
    expect(bundle.sdk).toBe(sdk.version)
  })

  it('the packed package reveals nothing about the machine that built it', async () => {
    const bundle = await readFile(join(consumer.folder, 'node_modules/pawl/dist/workflow-bundle.js'), 'utf8')
    const maps = [...bundle.matchAll(/sourceMappingURL=data:application\/json;charset=utf-8;base64,(.*)$/gm)]
    const sources = maps.flatMap(([, map]) => (JSON.parse(Buffer.from(map ?? '', 'base64').toString()) as { sources: string[] }).sources)
    expect(sources.length).toBeGreaterThan(10)
    expect(sources.filter((source) => source.startsWith('/'))).toEqual([])
  })
})

describe.each([
  { entry: 'client', program: "import { Pawl } from 'pawl/client'\nconsole.log(JSON.stringify(typeof Pawl.connect))\n" },
  { entry: 'service', program: "import { createHandler } from 'pawl/service'\nconsole.log(JSON.stringify(typeof createHandler))\n" },
])('pawl/$entry bundled for a serverless backend', ({ entry, program }) => {
  let metafile: Metafile
  beforeAll(async () => {
    await writeFile(join(consumer.folder, 'serverless.mjs'), program)
    const built = await build({
      absWorkingDir: consumer.folder,
      entryPoints: ['serverless.mjs'],
      outfile: 'bundled.cjs',
      bundle: true,
      platform: 'node',
      format: 'cjs',
      metafile: true,
      logLevel: 'error',
      // Optional parts of pg, which it loads only if configured to; they are not installed here.
      external: ['pg-native', 'pg-cloudflare'],
    })
    metafile = built.metafile
  })

  it('an entry bundled for a serverless backend contains neither the worker, nor workflow code, nor a native file', () => {
    const inputs = Object.keys(metafile.inputs)
    expect(inputs.some((input) => input.includes(`node_modules/pawl/dist/${entry}/`))).toBe(true)
    const foreign =
      /@temporalio\/(worker|core-bridge|workflow|activity|nexus)\/|pawl\/dist\/(worker|workflows|activities|local|cli)\/|workflow-bundle|\.node$/
    expect(inputs.filter((input) => foreign.test(input))).toEqual([])
  })

  it('an entry bundled for a serverless backend runs on its own', async () => {
    expect(answerOf(await consumer.node(['bundled.cjs']))).toBe('function')
  })
})

describe('a server that compresses its responses', () => {
  it('a server that compresses its responses sends the events of a stream as they happen', async () => {
    const beside = await consumer.installBeside('express@5', 'compression@1')
    const taskQueue = `package-compressed-${process.pid}`
    const outcome = await consumer.node(['stream.mjs'], { env: { ...env, TASK_QUEUE: taskQueue, PACKAGES: join(beside, 'package.json') } })
    expect(answerOf(outcome)).toEqual({ compresses: 'gzip', encoding: 'none', arrived: 10 })
  })
})

describe('what a frontend framework may bundle', () => {
  it('the entries for a frontend framework name no folder or file that a bundler would take for a module', async () => {
    const program = ['client', 'service', 'ui'].map((entry) => `export * as ${entry} from 'pawl/${entry}'`).join('\n')
    await writeFile(join(consumer.folder, 'entries.mjs'), program)
    const { metafile } = await build({
      ...{ absWorkingDir: consumer.folder, entryPoints: ['entries.mjs'], bundle: true, write: false, metafile: true },
      ...{ platform: 'node', format: 'esm', logLevel: 'error', external: ['pg-native', 'pg-cloudflare'] },
    })
    const ours = Object.keys(metafile.inputs).filter((input) => input.startsWith('node_modules/pawl/dist/'))
    expect(ours.length).toBeGreaterThan(100)
    const sources = await Promise.all(ours.map((input) => readFile(join(consumer.folder, input), 'utf8')))
    expect(sources.flatMap((source) => source.match(/new URL\([^()]*,\s*import\.meta\.url/g) ?? [])).toEqual([])
  })

  it.runIf(size(false, true))(
    'what a frontend framework may bundle is built by Next.js with Turbopack and with webpack, and answers there',
    async () => {
      const app = await nextApp()
      for (const bundler of ['--turbopack', '--webpack']) {
        await rm(join(app, '.next'), { recursive: true, force: true })
        const next = ['node_modules/next/dist/bin/next']
        // Without a deployment, as where images are built.
        const built = await run(process.execPath, [...next, 'build', bundler], { cwd: app, env: { NEXT_TELEMETRY_DISABLED: '1' } })
        expect(built, bundler).toMatchObject({ code: 0 })
        const port = await freePort()
        const server = spawn(process.execPath, [...next, 'start', '-p', String(port)], { cwd: app, env: { ...process.env, ...env } })
        try {
          const at = `http://127.0.0.1:${port}/api/pawl`
          expect(await until('it answers', () => answered(`${at}/health`), 60_000)).toMatchObject({ status: 'ok' })
          expect(await answered(`${at}/ready`)).toMatchObject({ temporal: true })
          const posted = await fetch(`${at}/v1/sessions`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ agent: 'support', content: 'Hello.' }),
          })
          expect(posted.status).toBe(201)
        } finally {
          server.kill('SIGKILL')
        }
      }
    },
  )
})

/** A new Next.js application with the mount of docs/web.md. */
async function nextApp(): Promise<string> {
  const packages = ['next@16', 'react@19', 'react-dom@19', 'typescript@5', '@types/react@19', '@types/node@20']
  const app = await consumer.installBeside(consumer.tarball, ...packages)
  const page = await readFile(new URL('../../docs/web.md', import.meta.url), 'utf8')
  const [, route = ''] = /^### Next\.js$.*?^```ts\n(.*?)^```$/ms.exec(page) ?? []
  const files = {
    'app/layout.tsx': 'export default ({ children }: { children: React.ReactNode }) => <html><body>{children}</body></html>\n',
    'app/page.tsx': 'export default () => <p>Chat</p>\n',
    'app/api/pawl/[...path]/route.ts': route,
  }
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(app, path)), { recursive: true })
    await writeFile(join(app, path), text)
  }
  return app
}

async function answered(url: string): Promise<unknown> {
  const response = await fetch(url).catch(() => undefined)
  return response?.json()
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

describe("beside another version of Temporal's SDK, which refuses the prebuilt workflow bundle", () => {
  /** The SDK's minor version that pawl is built with has only one release; a release of the minor version before shows the same. */
  const OTHER_SDK = '1.23.0'

  // Last, because the project has that version from here on.
  it('a worker with another version of Temporal’s SDK bundles once at startup, and serves an agent', async () => {
    await consumer.replaceSdk(OTHER_SDK)
    expect((await manifestOf('@temporalio/worker/package.json')).version).toBe(OTHER_SDK)
    expect((await manifestOf('pawl/dist/workflow-bundle.json')).sdk).not.toBe(OTHER_SDK)
    const { text } = answerOf<{ text: string }>(
      await consumer.node(['ask.mjs'], { env: { ...env, TASK_QUEUE: `package-other-sdk-${process.pid}`, WORKER: 'in-process' } }),
    )
    expect(text).toMatch(/^They make .*5/)
  })
})

/**
 * The compiler's complaints about the files and about pawl's declarations, under `strict`, with each of the given settings. Other packages
 * answer for their own.
 */
async function complaintsAbout(files: string[], ...settings: Record<string, unknown>[]): Promise<string[]> {
  await writeFile(join(consumer.folder, 'package.json'), JSON.stringify({ ...(await manifest()), type: 'module' }))
  const common = { strict: true, exactOptionalPropertyTypes: true, target: 'es2023', noEmit: true, types: [NODE_TYPES] }
  const projects = settings.map((more, index) => ({ name: `tsconfig.${index}.json`, compilerOptions: { ...common, ...more } }))
  for (const { name, compilerOptions } of projects) await writeFile(join(consumer.folder, name), JSON.stringify({ compilerOptions, files }))
  // One process for all of them takes half the time: it reads what they share once.
  const { stdout } = await consumer.node([TSC, '--build', '--force', '--singleThreaded', ...projects.map(({ name }) => name)])
  return stdout.split('\n').filter((line) => /^(\w+\.ts|node_modules\/pawl\/)/.test(line))
}

/** The names of the entries besides the main one. */
async function exportsOf(): Promise<{ entries: Record<string, unknown> }> {
  const { exports } = (await manifestOf('pawl/package.json')) as unknown as { exports: Record<string, unknown> }
  const names = Object.keys(exports).filter((name) => name.startsWith('./') && !name.endsWith('.json'))
  return { entries: Object.fromEntries(names.map((name) => [name.slice(2), exports[name]])) }
}

const guide = (name: string): Promise<string> => readFile(join(consumer.folder, 'node_modules/pawl/docs', name), 'utf8')

/** The first block of TypeScript. */
function firstProgram(page: string): string {
  return /```ts\n([\s\S]*?)```/.exec(page)?.[1] ?? expect.fail('The page has no program.')
}

/** The relative links of a page, without their anchors. */
function linksIn(page: string): string[] {
  const prose = page.replaceAll(/```[\s\S]*?```/g, '')
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target = '']) => target.replace(/#.*$/, ''))
    .filter((target) => target !== '' && !/^[a-z]+:/.test(target))
}

/** A JSON file of an installed package. */
async function manifestOf(path: string): Promise<Record<string, string>> {
  return JSON.parse(await readFile(join(consumer.folder, 'node_modules', path), 'utf8')) as Record<string, string>
}

async function manifest(): Promise<Record<string, unknown>> {
  return JSON.parse(await readFile(join(consumer.folder, 'package.json'), 'utf8')) as Record<string, unknown>
}

function expectNames(found: Names): void {
  for (const [entry, names] of Object.entries(NAMES)) expect(found[entry as keyof Names]).toEqual(expect.arrayContaining(names))
}
