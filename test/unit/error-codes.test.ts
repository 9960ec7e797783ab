// Error codes: each is thrown by one public class, and docs/errors.md has them all.
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

function thrownIn(folder: string): Thrown {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  const sources = files.map((file) => ts.createSourceFile(file, readFileSync(join(folder, file), 'utf8'), ts.ScriptTarget.Latest, true))
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

const thrown = thrownIn(join(ROOT, 'src'))
/** Rows `| code | class | … |`. */
const documented = new Map(
  [...readFileSync(join(ROOT, 'docs/errors.md'), 'utf8').matchAll(/^\| `([a-z_]+)` \| `(\w+)` \| [^|]+\|$/gm)].map(([, code, name]) => [
    code,
    name,
  ]),
)

it('are found in the source', () => {
  expect(thrown.codes.size).toBeGreaterThan(60)
  expect(thrown.codes.get('no_temporal')).toEqual(new Set(['ConnectError']))
  expect(thrown.codes.get('invalid_cursor')).toEqual(new Set(['InvalidOption']))
  expect(thrown.codes.get('session_not_found')).toEqual(new Set(['SessionNotFound']))
})

it('belong to one class each', () => {
  expect([...thrown.codes].filter(([, classes]) => classes.size > 1)).toEqual([])
})

it('are in docs/errors.md, each with its class', () => {
  const inSource = [...thrown.codes].map(([code, classes]) => `${code} ${[...classes].join()}`)
  const inDocs = [...documented].map(([code, name]) => `${code} ${name}`)
  expect(inDocs.sort()).toEqual(inSource.sort())
})

it('and so is every class', () => {
  const page = readFileSync(join(ROOT, 'docs/errors.md'), 'utf8')
  expect([...thrown.classes].filter((name) => !page.includes(`\`${name}\``))).toEqual([])
})
