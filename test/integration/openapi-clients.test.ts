// Clients that two generators make from the OpenAPI document, each with a program that talks to a real handler: openapi-typescript with
// openapi-fetch, and openapi-python-client. Both programs do the same and print what they have read.
import { execFile } from 'node:child_process'
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Agent, defineAgent, defineTool } from 'pawl'
import { createHandler, type Handler, nodeListener } from 'pawl/service'
import { calls, scripted } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { deploy, type Deployment, SILENT } from '../support/deployment.ts'
import { findPackages, runPython } from '../support/python-packages.ts'
import { answersIn, saidIn } from '../support/scenes.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const PROGRAMS = join(ROOT, 'test/guides/openapi')
const KEY = 'a-key'
/** After this, a program that still waits is killed. */
const TIMEOUT = 50_000

const support = defineAgent({
  name: 'support',
  instructions: 'Help.',
  model: scripted((request) => {
    const content =
      saidIn(request).at(-1) === 'refund' && answersIn(request) === 1
        ? calls('refund', { cents: 20_000 })
        : [{ type: 'text' as const, text: 'It arrives tomorrow.' }]
    const usage = { input_tokens: 100, output_tokens: 10, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
    return { content, usage }
  }),
  tools: [
    defineTool({
      name: 'refund',
      description: 'Refunds an order.',
      input: z.object({ cents: z.int() }),
      effect: 'external',
      approval: ({ cents }) => cents > 10_000 && 'more than 100.00',
      execute: ({ cents }) => `refunded ${cents}`,
    }),
  ],
}) as Agent

/** What a program prints, after the text of the first answer. */
const READ = {
  waiting: ['approval'],
  pending: { tool: 'refund', reason: 'more than 100.00', isDated: true },
  isOther: true,
  refunded: 'It arrives tomorrow.',
  inputTokens: 300,
  decisions: [['ann', 'Called the customer.']],
  calls: [['refund', 'completed']],
  status: ['idle', ['message'], 3],
  refusals: [
    [409, 'digest_mismatch'],
    [404, 'session_not_found'],
    [400, 'invalid_input'],
  ],
  parts: ['query.limit'],
  closed: [202, null],
}

let here: Deployment
let handler: Handler
let server: Server
let folder: string
let origin: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pawl-clients-'))
  here = await deploy()
  await here.startWorker({ agents: [support] })
  handler = createHandler({
    pawl: here.pawl,
    agents: ['support'],
    logger: SILENT,
    authorize: ({ headers }) =>
      headers.get('authorization') === `Bearer ${KEY}` ? { identity: 'ann', scopes: ['read', 'send', 'approve'], tenant: 'acme' } : null,
  })
  server = createServer(nodeListener(handler))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(async () => {
  server?.closeAllConnections()
  await new Promise((resolve) => (server ? server.close(resolve) : resolve(undefined)))
  await here?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** Runs a program of node_modules, or one of ours, in the folder. @throws with all that it printed if it fails. */
function run(args: readonly string[]): Promise<string> {
  const options = { cwd: folder, env: { ...process.env, KEY, PAWL_URL: origin }, timeout: TIMEOUT, killSignal: 'SIGKILL' as const }
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, options, (error, stdout, stderr) =>
      error ? reject(new Error(`${args.join(' ')}:\n${stdout}${stderr}`)) : resolve(stdout),
    )
  })
}

const installed = (program: string): string => join(ROOT, 'node_modules/.bin', program)

/** The text that a program printed first, and what it has read. */
function printed(output: string): { text: string | undefined; read: unknown } {
  const [text, json = ''] = output.trim().split('\n')
  return { text, read: JSON.parse(json) }
}

describe('a client of the document', () => {
  it('a TypeScript client generated from the document finds mistakes at compile time, and talks to the handler', async () => {
    await run([installed('openapi-typescript'), `${origin}/openapi.json`, '-o', 'pawl.d.ts'])
    await cp(join(PROGRAMS, 'program.ts'), join(folder, 'program.ts'))
    await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
    // With `skipLibCheck`, the compiler would not look at mistakes in the generated types.
    const compilerOptions = { noEmit: false, outDir: 'made', rootDir: '.', declaration: false, skipLibCheck: false }
    await writeFile(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ extends: join(ROOT, 'tsconfig.json'), compilerOptions, include: ['*.ts'] }),
    )
    await run([installed('tsc'), '-p', '.'])
    expect(printed(await run(['made/program.js']))).toEqual({ text: 'It arrives tomorrow.', read: READ })
  })

  it('a Python client is generated from the document without a warning, with all operations, and talks to the handler', async ({
    skip,
  }) => {
    const found = await findPackages('openapi-python-client')
    if (typeof found === 'string') return skip(`no openapi-python-client: ${found}`)
    // By default, it formats what it has generated, with a program that may not be installed.
    await writeFile(join(folder, 'config.yaml'), 'post_hooks: []\n')
    const at = { cwd: folder, env: { KEY, PAWL_URL: origin }, timeout: TIMEOUT }
    const document = ['--url', `${origin}/openapi.json`, '--config', 'config.yaml', '--fail-on-warning']
    const made = await runPython(
      found,
      ['-m', 'openapi_python_client', 'generate', ...document, '--meta', 'none', '--output-path', 'pawl_client'],
      at,
    )
    expect(made).toEqual({ code: 0, output: 'Generating pawl_client\n' })
    const modules = await readdir(join(folder, 'pawl_client/api'), { recursive: true })
    const operations = JSON.stringify(handler.openApi).match(/"operationId":/g) ?? []
    expect(modules.filter((path) => /\/\w+\.py$/.test(path) && !path.endsWith('__init__.py'))).toHaveLength(operations.length)
    await cp(join(PROGRAMS, 'program.py'), join(folder, 'program.py'))
    const { code, output } = await runPython(found, ['program.py'], at)
    expect(code, output).toBe(0)
    expect(printed(output)).toEqual({ text: 'It arrives tomorrow.', read: READ })
  })

  it('a client of the document is shown in docs/web.md as it runs here', async () => {
    const guide = await readFile(join(ROOT, 'docs/web.md'), 'utf8')
    for (const [file, mark, language] of [
      ['program.ts', '//', 'ts'],
      ['program.py', '#', 'python'],
    ] as const) {
      const source = await readFile(join(PROGRAMS, file), 'utf8')
      const [, snippet = ''] = source.split(new RegExp(`^${mark} #?(?:end)?region.*\n`, 'm'))
      expect(guide).toContain(`\`\`\`${language}\n${snippet}\`\`\``)
    }
  })
})
