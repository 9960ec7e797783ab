// The stack that is recorded of an exception: what a person reads first is their own line.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { LRUCache } from 'lru-cache'
import ts from 'typescript'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ModelError, ToolError } from '../../../src/agent/errors.ts'
import { failedAttempt } from '../../../src/jobs/attempt.ts'
import { runBody, TimedOut } from '../../../src/jobs/tool-call/body.ts'
import { stackOf } from '../../../src/jobs/stack.ts'

const PAWL = fileURLToPath(new URL('../../../src/', import.meta.url))
const HERE = fileURLToPath(import.meta.url)
const OWN = new RegExp(`^ {4}at .*${HERE.replaceAll('/', '\\/').replaceAll('.', '\\.')}:\\d+:\\d+\\)?$`)

/** The error with which a body ends, run as pawl runs tools. */
async function thrownBy(body: () => unknown): Promise<unknown> {
  const bounds = { timeoutMs: 20, stop: new AbortController().signal, abandonAfterMs: 10 }
  return runBody(bounds, async () => body()).then(
    () => expect.fail('it did not throw'),
    (error: unknown) => error,
  )
}

const stackIn = (error: unknown): string[] => stackOf(error)?.text.split('\n') ?? []
const withStack = (stack: unknown, message = 'm'): Error => Object.assign(new Error(message), { stack })

describe('the stack of an exception', () => {
  it('the stack of an exception begins with the user’s own frame, and has no frame of pawl or Node', async () => {
    const lines = stackIn(await thrownBy(() => new LRUCache({ max: -1 })))
    expect(lines[0]).toMatch(OWN)
    expect(lines.findIndex((line) => line.includes('/node_modules/lru-cache/'))).toBeGreaterThan(0)
    expect(lines.join('\n')).not.toMatch(/src\/jobs|node:/)
  })

  it('the stack of an exception has the frames of its causes', async () => {
    const refused = Object.assign(new Error('no route to bank'), { code: 'EHOSTUNREACH' })
    const error = await thrownBy(() => {
      throw new ToolError('The bank is closed.', { cause: refused })
    })
    const lines = stackIn(error)
    const at = lines.indexOf('Caused by: Error [EHOSTUNREACH]: no route to bank')
    expect(at).toBeGreaterThan(0)
    expect([lines[0], lines[at + 1]]).toEqual([expect.stringMatching(OWN), expect.stringMatching(OWN)])
  })

  it('the stack of a failed connection has Node’s frames, because there are no others', () => {
    const stack = 'Error: connect ECONNREFUSED 127.0.0.1:1\n    at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1637:16)'
    expect(stackIn(withStack(stack, 'connect ECONNREFUSED 127.0.0.1:1'))).toEqual([
      '    at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1637:16)',
    ])
  })

  it.each(['src/jobs/tool-call/body.ts', 'dist/jobs/tool-call/body.js'])(
    'the stack of an exception has no frame of pawl at %s, with source maps or without',
    (file) => {
      const own = '    at look (/app/tools.ts:3:9)'
      expect(stackIn(withStack(`Error: m\n${own}\n    at runBody (${join(PAWL, '..', file)}:20:1)\n    at run (node:x:1:1)`))).toEqual([
        own,
      ])
    },
  )

  it('a line of an exception’s message is not taken for a frame of its stack', () => {
    const message = 'the page says:\n    at home (/etc/passwd:1:1)'
    expect(stackIn(withStack(`Error: ${message}\n    at look (/app/tools.js:3:9)`, message))).toEqual(['    at look (/app/tools.js:3:9)'])
  })

  it.each([
    ['a deep recursion', () => deep(10_000)],
    ['causes that contain each other', () => Object.assign(new Error('a'), { cause: endless })],
    ['huge texts', () => withStack(`Error: m\n${`    at ${'f'.repeat(9_000)} (/app/ü.js:1:1)\n`.repeat(500)}`)],
    ['half a surrogate', () => new Error('a', { cause: new Error(`${'😀'.repeat(400)}`) })],
  ])('the stack of an exception is bounded: %s', (_, make) => {
    const { text } = stackOf(make()) ?? expect.fail('no stack')
    expect(Buffer.byteLength(JSON.stringify(text))).toBeLessThanOrEqual(3_000)
    expect(text).not.toMatch(/\p{Surrogate}/u)
  })

  const unreadable = (name: 'message' | 'cause', error: Error): Error =>
    Object.defineProperty(error, name, { get: () => expect.fail('read') })

  it.each([
    ['its message', () => unreadable('message', new Error('x'))],
    ['its cause', () => unreadable('cause', new Error('x'))],
    ['the message of its cause', () => new Error('x', { cause: unreadable('message', new Error('y')) })],
  ])('the stack of an exception is shown although %s throws when it is read', async (_, make) => {
    const error = await thrownBy(() => {
      throw make()
    })
    expect(stackIn(error)[0]).toMatch(OWN)
    expect(failedAttempt(1, error, { retryable: true }).stack).toMatch(/^ {4}at .*stack\.test\.ts/)
  })

  it.each([
    ['no error', 'text'],
    ['nothing', undefined],
    ['an error whose stack is no text', withStack(7)],
    ['an error that throws when it is read', Object.defineProperty(new Error('x'), 'stack', { get: () => expect.fail('read') })],
    ['an error whose cause throws when it is read', Object.defineProperty(withStack('Error: m'), 'cause', { get: () => expect.fail() })],
  ])('the stack of an exception is absent for %s', (_, thrown) => {
    expect(stackOf(thrown)).toBeUndefined()
  })
})

const endless: Error & { cause?: unknown } = new Error('b')
endless.cause = endless

function deep(left: number): Error {
  return left === 0 ? new Error('bottom') : deep(left - 1)
}

describe('a failed attempt', () => {
  const recorded = (error: unknown): string | undefined => failedAttempt(1, error, { retryable: true }).stack

  it('a failed attempt has the stack of what user code threw, even of an error of pawl', async () => {
    for (const make of [() => new TypeError('x'), () => new ToolError('x'), () => new ModelError('c', 'x', { retryable: true })]) {
      const error = await thrownBy(() => {
        throw make()
      })
      expect(recorded(error)).toMatch(/^ {4}at .*stack\.test\.ts/)
    }
  })

  it.each([
    ['a timeout', new TimedOut(20)],
    ['a provider’s refusal', new ModelError('rate_limit_error', 'slow down', { retryable: true, cause: new Error('429') })],
  ])('a failed attempt has no stack for %s, which pawl throws itself', (_, error) => {
    for (const one of [error, error.cause as Error | undefined]) {
      if (one) one.stack = `Error: ${one.message}\n    at classify (${PAWL}models/anthropic.ts:1:1)\n    at pump (node:internal/x:1:1)`
    }
    expect(recorded(error)).toBeUndefined()
  })
})

describe('compiled code with a source map', () => {
  const SOURCE = 'interface Order { id: string }\n\nexport function look(order: Order): string {\n  throw new Error(order.id)\n}\n'
  let folder: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'pawl-stack-'))
    for (const [name, options] of Object.entries({ beside: { sourceMap: true }, inline: { inlineSourceMap: true } })) {
      const compilerOptions = { ...options, module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ESNext, sourceRoot: '../src' }
      const { outputText, sourceMapText } = ts.transpileModule(SOURCE, { fileName: `${name}.ts`, compilerOptions })
      await writeFile(join(folder, `${name}.mjs`), `${outputText.replace('.js.map', '.mjs.map')}\n`)
      if (sourceMapText !== undefined) await writeFile(join(folder, `${name}.mjs.map`), sourceMapText)
    }
    await writeFile(join(folder, 'broken.mjs'), '//# sourceMappingURL=gone.map\n')
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  async function thrownIn(file: string): Promise<unknown> {
    const { look } = (await import(/* @vite-ignore */ pathToFileURL(join(folder, file)).href)) as { look(order: { id: string }): string }
    return thrownBy(() => look({ id: 'A7' }))
  }

  it.each(['beside', 'inline'])('compiled code with a source map is shown by the line of its source: %s', async (name) => {
    expect(stackIn(await thrownIn(`${name}.mjs`))[0]).toBe(`    at look (${join(folder, '../src', `${name}.ts`)}:4:9)`)
  })

  it('compiled code with a source map is shown as it is if the map cannot be read', () => {
    const frame = `    at look (${join(folder, 'broken.mjs')}:1:1)`
    expect(stackIn(withStack(`Error: m\n${frame}`))).toEqual([frame])
  })
})
