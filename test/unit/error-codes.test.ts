// Error codes: each belongs to one public class, and docs/errors.md has them all, including those of refusals that the session makes.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Errors that never reach a caller as they are: they become events, failures of activities, or one of the others. */
const INTERNAL = [
  'ArchiveUnavailable',
  'AttemptLost',
  'CannotLoad',
  'InvalidResult',
  'NotAfforded',
  'SharedBudgetRefusal',
  'StaleWatermark',
  'TargetRefused',
  'TryAgain',
  'UnreadableState',
]

interface Thrown {
  /** Classes by code. */
  codes: Map<string, Set<string>>
  classes: Set<string>
}

function sourcesIn(folder: string): ts.SourceFile[] {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  return files.map((file) => ts.createSourceFile(file, readFileSync(join(folder, file), 'utf8'), ts.ScriptTarget.Latest, true))
}

function thrownIn(sources: readonly ts.SourceFile[]): Thrown {
  const parents = new Map<string, string>()
  for (const source of sources) {
    each(source, (node) => {
      if (ts.isClassDeclaration(node) && node.name)
        parents.set(node.name.text, node.heritageClauses?.[0]?.types[0]?.expression.getText() ?? '')
    })
  }
  const isOurs = (name: string): boolean => name === 'PawlError' || (parents.has(name) && isOurs(parents.get(name) ?? ''))
  const classes = new Set([...parents.keys()].filter((name) => name !== 'PawlError' && isOurs(name) && !INTERNAL.includes(name)))
  const codes = new Map<string, Set<string>>()
  const add = (given: ts.Expression | undefined, name: string): void => {
    const code = given && codeIn(given)
    if (code !== undefined && classes.has(name)) codes.set(code, (codes.get(code) ?? new Set()).add(name))
  }
  for (const source of sources) {
    each(source, (node) => {
      if (ts.isNewExpression(node)) add(node.arguments?.[0], node.expression.getText())
      if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.SuperKeyword) add(node.arguments[0], classOf(node))
      // A default: `code = 'invalid_option'`, and what else it may be: `{ code: 'invalid_cursor' }`.
      if (ts.isBindingElement(node) && node.name.getText() === 'code') add(node.initializer, classOf(node))
      if (ts.isPropertyAssignment(node) && node.name.getText() === 'code' && ts.isNewExpression(node.parent.parent)) {
        add(node.initializer, node.parent.parent.expression.getText())
      }
    })
  }
  return { codes, classes }
}

/** Calls of these functions refuse a request: `refuse(code, …)`. */
const REFUSING = ['refuse']
/** What these functions return becomes a refusal: `{ code, reason }`. */
const PROBLEMS = ['problemWith', 'problemWithTurn', 'problemWithChoice']

/**
 * Codes of refusals that the session makes itself. The client throws them as `RequestRefusedError`: `refusable` in client/session/updates.ts;
 * `session_not_found` becomes a `SessionNotFoundError`.
 */
function refusedIn(sources: readonly ts.SourceFile[]): Set<string> {
  const codes = new Set<string>()
  const add = (given: ts.Node | undefined): void => {
    const found = given && ts.isExpression(given) ? codeIn(given) : undefined
    if (found !== undefined && found !== 'session_not_found') codes.add(found)
  }
  for (const source of sources) {
    const isWorkflow = source.fileName.startsWith('workflows/') || source.fileName === 'activities/load-fork.ts'
    each(source, (node) => {
      if (isWorkflow && ts.isCallExpression(node) && REFUSING.includes(node.expression.getText())) add(node.arguments[0])
      if (ts.isNewExpression(node) && node.expression.getText() === 'TargetRefused') add(node.arguments?.[0])
      if (!ts.isPropertyAssignment(node) || node.name.getText() !== 'code') return
      const others = node.parent.properties.map((property) => property.name?.getText())
      // `{ kind: 'refused', code, reason }` of an activity, and `{ notYet: { code, reason } }` of the opening.
      const isKind = node.parent.properties.some((one) => ts.isPropertyAssignment(one) && one.initializer.getText() === "'refused'")
      const isNotYet = ts.isPropertyAssignment(node.parent.parent) && node.parent.parent.name.getText() === 'notYet'
      if (isKind || isNotYet || (others.includes('reason') && PROBLEMS.includes(functionOf(node)))) add(node.initializer)
    })
  }
  return codes
}

function functionOf(node: ts.Node): string {
  if (ts.isFunctionDeclaration(node)) return node.name?.text ?? ''
  return node.parent ? functionOf(node.parent) : ''
}

function each(node: ts.Node, look: (node: ts.Node) => void): void {
  look(node)
  ts.forEachChild(node, (child) => each(child, look))
}

/** A code as written in a call: text, or the default of an expression that may be something else. */
function codeIn(node: ts.Expression): string | undefined {
  if (ts.isBinaryExpression(node)) return codeIn(node.right)
  return ts.isStringLiteral(node) && /^[a-z]+(_[a-z]+)*$/.test(node.text) ? node.text : undefined
}

function classOf(node: ts.Node): string {
  if (ts.isClassDeclaration(node)) return node.name?.text ?? ''
  return node.parent ? classOf(node.parent) : ''
}

const sources = sourcesIn(join(ROOT, 'src'))
const thrown = thrownIn(sources)
const refused = refusedIn(sources)
const page = readFileSync(join(ROOT, 'docs/errors.md'), 'utf8')
/** Rows `| code | class | … |`. */
const documented = new Map([...page.matchAll(/^\| `([a-z_]+)` \| `(\w+)` \| [^|]+\|$/gm)].map(([, code, name]) => [code, name]))
/** Codes in the rows `| request | codes of its refusal |`, but for those of `send`, which are an `InvalidMessageError`'s. */
const documentedRefusals = new Set(
  [...(page.split('| request | codes of its refusal |')[1] ?? '').matchAll(/^\| (.+?) \| (.+) \|$/gm)]
    .filter(([, request = '']) => !request.startsWith('`send`'))
    .flatMap(([, , codes = '']) => [...codes.matchAll(/`([a-z]+(?:_[a-z]+)+)`/g)].map(([, code = '']) => code)),
)
/** Codes that are put together, or chosen, where the refusal is made: no literal names them there. */
const COMPOSED = [
  'message_not_found',
  'invalid_arguments',
  'invalid_idempotency_key',
  'unknown_tool',
  'archive_unavailable',
  'execution_unreadable',
]

it('the error codes are found in the source', () => {
  expect(thrown.codes.size).toBeGreaterThan(60)
  expect(thrown.codes.get('no_temporal')).toEqual(new Set(['ConnectError']))
  expect(thrown.codes.get('invalid_cursor')).toEqual(new Set(['InvalidOptionError']))
  expect(thrown.codes.get('session_not_found')).toEqual(new Set(['SessionNotFoundError']))
  expect(refused.size).toBeGreaterThan(40)
  expect([...refused]).toEqual(
    expect.arrayContaining(['digest_mismatch', 'not_in_error', 'no_calls', 'run_not_found', 'session_exists', 'session_not_loaded']),
  )
})

it('each error code belongs to one class', () => {
  const classes = new Map([...thrown.codes].map(([code, names]) => [code, new Set(names)]))
  for (const code of [...refused, ...COMPOSED]) classes.set(code, (classes.get(code) ?? new Set()).add('RequestRefusedError'))
  expect([...classes].filter(([, names]) => names.size > 1)).toEqual([])
})

it('the error codes are in docs/errors.md, each with its class', () => {
  const inSource = [...thrown.codes].map(([code, classes]) => `${code} ${[...classes].join()}`)
  const inDocs = [...documented].map(([code, name]) => `${code} ${name}`)
  expect(inDocs.sort()).toEqual(inSource.sort())
})

it('docs/errors.md lists exactly the codes with which a session refuses requests', () => {
  const isRefusal = (code: string): boolean =>
    refused.has(code) || COMPOSED.includes(code) || thrown.codes.get(code)?.has('RequestRefusedError') === true
  expect([...refused, ...COMPOSED].filter((code) => !documentedRefusals.has(code))).toEqual([])
  expect([...documentedRefusals].filter((code) => !isRefusal(code))).toEqual([])
})

it('every error class is in docs/errors.md', () => {
  expect([...thrown.classes].filter((name) => !page.includes(`\`${name}\``))).toEqual([])
})
