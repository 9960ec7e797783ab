// The command lines in the guides: each names a command and options that exist, and has no more arguments than the command accepts.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { createProgram } from '../../src/cli/program.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const textOf = (path: string): string => readFileSync(`${ROOT}/${path}`, 'utf8')
const pages = [
  'README.md',
  'docs/alerts.yml',
  ...['docs', 'examples'].flatMap((folder) =>
    readdirSync(`${ROOT}/${folder}`, { recursive: true, encoding: 'utf8' }).flatMap((name) =>
      name.endsWith('.md') ? [`${folder}/${name}`] : [],
    ),
  ),
]
const program = createProgram()

/** The code of a page: in fences for a terminal, and in the text. */
function codeIn(page: string): string[] {
  const fences = [...page.matchAll(/^```(\w*)\n([^]*?)^```/gm)]
  const lines = fences.flatMap(([, language = '', body = '']) =>
    ['', 'sh', 'text'].includes(language) ? body.replaceAll(/\\\n\s*/g, '').split('\n') : [],
  )
  const text = fences.reduce((rest, [fence]) => rest.replace(fence, ''), page)
  return [...lines, ...[...text.matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code)]
}

/** The commands in a line, each as its words. Two spaces, a comment or a pipe end a command. */
function commandsIn(line: string): string[][] {
  return [...line.matchAll(/(?:^|[\s(`/=])pawl ([a-z][a-z-]*(?: [^\n]*)?)$/g)].map(([, command = '']) => {
    const [own = ''] = command.split(/ {2,}| #| \||;|\)|`/, 1)
    return own.match(/'[^']*'|"[^"]*"|\S+/g) ?? []
  })
}

/** What is wrong with a command; undefined if it can be run. */
function faultOf([name = '', ...words]: readonly string[]): string | undefined {
  const outer = program.commands.find((one) => one.name() === name)
  if (!outer) return 'no such command'
  const inner = outer.commands.find((one) => one.name() === words[0])
  const command: Command = inner ?? outer.commands[0] ?? outer
  let values = inner ? -1 : 0
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? ''
    if (!word.startsWith('-')) {
      values++
      continue
    }
    const option = command.options.find(({ long, short }) => long === word || short === word)
    if (!option && word !== '--help') return `no option ${word}`
    // `--keep a b`: an option with several values.
    if (option?.required || option?.optional)
      do at++
      while (option.variadic && at + 1 < words.length && !words[at + 1]?.startsWith('-'))
  }
  const accepted = command.registeredArguments
  return values > accepted.length && !accepted.some(({ variadic }) => variadic) ? 'too many arguments' : undefined
}

describe('the command lines in the guides', () => {
  it('every command line in the guides names a command and options that exist', () => {
    const commands = pages.flatMap((path) => codeIn(textOf(path)).flatMap((line) => commandsIn(line).map((words) => ({ path, words }))))
    expect(commands.length).toBeGreaterThan(300)
    const faults = commands.flatMap(({ path, words }) => {
      const fault = faultOf(words)
      return fault === undefined ? [] : [`${path}: pawl ${words.join(' ')}: ${fault}`]
    })
    expect(faults).toEqual([])
  })

  it('every alert has a row in the guide for the person on call, with what to do', () => {
    const alerts = [...textOf('docs/alerts.yml').matchAll(/- alert: (\w+)/g)].map(([, name = '']) => name)
    const [, table = ''] = /^\| alert \| look at \| what to do \|\n((?:\|.*\n)+)/m.exec(textOf('docs/operating.md')) ?? []
    const rows = [...table.matchAll(/`(Pawl\w+)`/g)].map(([, name = '']) => name)
    expect(alerts.length).toBeGreaterThan(10)
    expect(rows.toSorted()).toEqual(alerts.toSorted())
  })
})
