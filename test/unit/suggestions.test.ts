// Commands that pawl suggests have one owner, `SUGGESTIONS`: a text that contains another one would not be tested, and may not work.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { createProgram } from '../../src/cli/program.ts'
import { SUGGESTIONS, waysOut } from '../../src/session/suggestions.ts'

const SRC = fileURLToPath(new URL('../../src', import.meta.url))
const OWNER = 'session/suggestions.ts'
/** The examples of `--help`. */
const EXAMPLES = 'cli/groups.ts'
const COMMANDS = createProgram().commands.map((command) => command.name())
const SUGGESTED = new RegExp(`\\bpawl (?:${COMMANDS.join('|')})\\b`)
/** What a command does, in its `--help`: it is read before there is a situation. */
/** Texts about commands that suggest nothing. */
const ALLOWED = [
  'cli/chat/conversation.ts: pawl chat',
  'cli/commands/continuing.ts: finish the step in progress, then start no other step until `pawl unpause`; messages wait',
]

const HELP = new Set(['description', 'option', 'argument', 'Option', 'Argument', 'addHelpText'])

interface Text {
  file: string
  text: string
}

/** The texts in the code, without those of `--help`. */
function textsIn(file: string): Text[] {
  const source = ts.createSourceFile(file, readFileSync(join(SRC, file), 'utf8'), ts.ScriptTarget.Latest, true)
  const found: Text[] = []
  const walk = (node: ts.Node): void => {
    if ((ts.isCallExpression(node) || ts.isNewExpression(node)) && HELP.has(nameOf(node.expression))) {
      // `.description(…)` has the commands that were configured before it as its receiver.
      walk(node.expression)
      return
    }
    if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) found.push({ file, text: node.text })
    if (ts.isTemplateExpression(node)) found.push({ file, text: node.getText() })
    node.forEachChild(walk)
  }
  walk(source)
  return found
}

function nameOf(called: ts.Expression): string {
  return ts.isPropertyAccessExpression(called) ? called.name.text : called.getText()
}

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter(
  (file) => file.endsWith('.ts') && file !== OWNER && file !== EXAMPLES,
)

describe('a command in a text of pawl', () => {
  it('every command in pawl’s texts comes from the suggestions', () => {
    const texts = files.flatMap(textsIn)
    // The search finds texts at all.
    expect(texts.length).toBeGreaterThan(1_000)
    expect(texts.filter(({ text }) => SUGGESTED.test(text)).map(({ file, text }) => `${file}: ${text}`)).toEqual(ALLOWED)
  })

  it('every suggested command is used in a text of pawl', () => {
    const code = files.map((file) => readFileSync(join(SRC, file), 'utf8')).join('\n')
    const own = readFileSync(join(SRC, OWNER), 'utf8')
    expect(Object.keys(SUGGESTIONS).filter((name) => !`${code}${own}`.includes(`SUGGESTIONS.${name}(`))).toEqual([])
  })
})

describe('the ways out of an error', () => {
  const about = { strategy: 'continue_run', options: ['continue_run', 'restart_run', 'abandon', 'manual'] } as const
  const waysOf = (error: object) => waysOut('s', { code: 'broken', ...about, options: [...about.options], ...error })

  it('the ways out of an error are the possible strategies, the best one first', () => {
    expect(waysOf({ strategy: 'restart_run' })).toEqual([
      { command: 'pawl recover s --strategy restart_run', isSuggested: true },
      { command: 'pawl recover s --strategy continue_run', isSuggested: false },
      { command: 'pawl recover s --strategy abandon', isSuggested: false },
    ])
  })

  it('the ways out of an exhausted budget begin with higher limits, without which most strategies fail again', () => {
    const raise = [{ scope: 'run', maxUsd: 2 } as const, { scope: 'session', maxUsd: 9, maxTotalTokens: 4_000 } as const]
    expect(waysOf({ code: 'budget_exhausted', raise }).map(({ command }) => command)).toEqual([
      'pawl raise s --scope run --max-usd 2',
      'pawl raise s --scope session --max-usd 9 --max-tokens 4000',
      'pawl recover s --strategy abandon',
    ])
  })

  it('the ways out of an error do not repeat a call with a context that the agent refuses', () => {
    expect(waysOf({ code: 'invalid_context' })).toEqual([{ command: 'pawl recover s --strategy abandon', isSuggested: true }])
  })

  it('there are no ways out of an error that the session leaves by itself', () => {
    expect(waysOf({ strategy: 'automatic' })).toEqual([])
  })
})
