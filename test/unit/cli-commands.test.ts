// The commands as a whole: what all of them name in the same way.
import { readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { CONTINUING } from '../../src/cli/commands/continuing.ts'
import { DECIDING } from '../../src/cli/commands/deciding.ts'
import { GOING_BACK } from '../../src/cli/commands/going-back.ts'
import { LISTS } from '../../src/cli/commands/lists.ts'
import { TALKING } from '../../src/cli/commands/talking.ts'
import { GROUPS } from '../../src/cli/groups.ts'
import { here, rememberPlace, withPlaces } from '../../src/cli/here.ts'
import { createProgram } from '../../src/cli/program.ts'

const { commands } = createProgram()
const has = (name: string, flag: string): boolean =>
  commands.find((command) => command.name() === name)?.options.some(({ long }) => long === flag) ?? expect.fail(name)

/** Commands whose first argument is an agent or a module, or that are about all sessions. */
const NO_SESSION = [
  'agents',
  'approvals',
  'budgets',
  'chat',
  'crash-test',
  'dev',
  'doctor',
  'gates',
  'keys',
  'mcp',
  'preflight',
  'schedules',
  'serve',
  'webhooks',
  'worker',
  'failures',
  'migrate',
  'prune',
  'sessions',
]
const CHANGING = [
  'approve',
  'deny',
  'resolve',
  'answer',
  'recover',
  'regenerate',
  'rollback',
  'fork',
  'checkpoint',
  'close',
  'interrupt',
  'pause',
  'unpause',
  'erase',
]

/** Files that have several commands, as rows of a table. */
const TABLES = [LISTS, TALKING, DECIDING, CONTINUING, GOING_BACK]
const TABLE_FILES = ['lists.ts', 'talking.ts', 'deciding.ts', 'continuing.ts', 'going-back.ts']

describe('all commands', () => {
  it('each command is a row of a table, or has a file with its name', () => {
    const files = readdirSync(new URL('../../src/cli/commands', import.meta.url))
    const inTables = TABLES.flat().map((command) => command().name())
    const others = commands.map((command) => command.name()).filter((name) => !inTables.includes(name))
    expect(files.toSorted()).toEqual([...TABLE_FILES, ...others.map((name) => `${name}.ts`)].toSorted())
  })

  it('all commands take their session as the first argument', () => {
    const others = commands.filter((command) => command.registeredArguments[0]?.name() !== 'session').map((command) => command.name())
    expect(others.sort()).toEqual(NO_SESSION.sort())
  })

  it("all commands that change a session record who requests it: by default the operating system's user", () => {
    expect(CHANGING.filter((name) => !has(name, '--by'))).toEqual([])
    const guessed = commands.filter(({ options }) => options.some((one) => one.defaultValueDescription === "the operating system's user"))
    // An erasure cannot be undone: its author is not guessed.
    expect(CHANGING.filter((name) => !guessed.some((command) => command.name() === name))).toEqual(['erase'])
  })

  it('all commands say in their help which options they require', () => {
    const required = commands.flatMap((command) => command.options.filter(({ mandatory }) => mandatory))
    expect(required.map(({ long }) => long).sort()).toEqual(['--by', '--older-than'])
    expect(required.filter(({ description }) => !description.includes('required'))).toEqual([])
  })

  it('all commands print JSON on request, except for a conversation', () => {
    const ends = commands.flatMap((command) => (command.commands.length > 0 ? command.commands : [command]))
    const silent = ends.filter(({ options }) => !options.some(({ long }) => long === '--json'))
    expect(silent.map((command) => command.name())).toEqual(['chat'])
  })
})

/** The words of a line, as a shell reads them. */
function wordsOf(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
}

describe('the help', () => {
  const examples = GROUPS.flatMap(({ commands: named }) =>
    Object.entries(named).flatMap(([name, lines]) => lines.map((line) => [name, line])),
  )

  it('the help has every command in one group, with an example', () => {
    const grouped = GROUPS.flatMap(({ commands: named }) => Object.keys(named))
    expect(grouped.toSorted()).toEqual(commands.map((command) => command.name()).toSorted())
    expect(grouped.filter((name) => !examples.some(([of]) => of === name))).toEqual([])
  })

  it('the help lists the groups, and fits 100 columns', () => {
    const help = createProgram()
    help.configureHelp({ helpWidth: 100 })
    const text = help.helpInformation()
    const at = GROUPS.map(({ heading }) => text.indexOf(`\n${heading}\n`))
    expect(at.every((index) => index > 0)).toBe(true)
    expect(at).toEqual(at.toSorted((one, other) => one - other))
    expect(text.split('\n').filter((line) => line.length > 100)).toEqual([])
  })

  it.each(examples)('the help of %s has an example that its parser accepts: %s', async (name = '', line = '') => {
    const [pawl, ...words] = wordsOf(line)
    const program = createProgram().exitOverride()
    const ran: string[] = []
    for (const command of program.commands.flatMap((one) => [one, ...one.commands])) {
      command.exitOverride()
      if (command.commands.length === 0)
        command.action(() => void ran.push(command.parent === program ? command.name() : (command.parent?.name() ?? '')))
    }
    await program.parseAsync(words, { from: 'user' })
    expect([pawl, ran]).toEqual(['pawl', [name]])
  })
})

describe('a suggested command', () => {
  const placeOf = (...words: string[]): void => {
    const program = createProgram()
    const command = program.commands.find((one) => one.name() === words[0]) ?? expect.fail(words[0])
    command.parseOptions(words.slice(1))
    rememberPlace(program, command)
  }

  it('a suggested command has the task queue and the schema that the command line names, if it has such options', () => {
    placeOf('status', '--task-queue', 'prod', '--schema', "it's ours")
    expect(here('pawl doctor')).toBe("pawl doctor --task-queue prod --schema 'it'\\''s ours'")
    expect(here('pawl worker <module>')).toContain('--task-queue prod')
    // Options of commands that belong to another one.
    expect(here('pawl keys list')).toBe("pawl keys list --task-queue prod --schema 'it'\\''s ours'")
    expect(here('pawl gates')).toBe("pawl gates --task-queue prod --schema 'it'\\''s ours'")
    expect(here("pawl gates open 'a b'")).toContain("open 'a b' --task-queue prod")
    expect(here('pawl crash-test x.ts')).toBe('pawl crash-test x.ts')
    expect(withPlaces('Run `pawl doctor`, or `npm test`.')).toMatch(/^Run `pawl doctor --task-queue prod .*`, or `npm test`\.$/)
  })

  it('a suggested command has no additional options if the command line names none', () => {
    placeOf('status')
    expect(here('pawl doctor')).toBe('pawl doctor')
    expect(withPlaces('Run `pawl worker <module>`.')).toBe('Run `pawl worker <module>`.')
  })
})

describe('an argument that begins with a dash', () => {
  /** What the command gets from this command line. */
  async function read(...words: string[]): Promise<{ words: unknown[]; options: object }> {
    const program = createProgram()
    const command = program.commands.find((one) => one.name() === words[0]) ?? expect.fail(words[0])
    const got: unknown[] = []
    command.action((...all: unknown[]) => void got.push(...all.slice(0, -2)))
    await program.parseAsync(words, { from: 'user' })
    return { words: got, options: command.opts() }
  }

  it('an id and a message may begin with a dash, before and after options', async () => {
    expect(await read('approve', '-Vk3_x', 't_1_1_0', '--task-queue', 'q')).toMatchObject({
      words: ['-Vk3_x', 't_1_1_0'],
      options: { taskQueue: 'q' },
    })
    expect(await read('send', '--agent', 'support', '-Vk3_x', '- two\n- lines')).toMatchObject({
      words: ['-Vk3_x', '- two\n- lines'],
      options: { agent: 'support' },
    })
    expect(await read('recover', '-h3', '--reason', '-5 %', '--keep', 't_1_1_0', 't_1_1_1')).toMatchObject({
      words: ['-h3'],
      options: { reason: '-5 %', keep: ['t_1_1_0', 't_1_1_1'] },
    })
    expect((await read('status', '--', '--odd')).words).toEqual(['--odd'])
  })

  it('a misspelt option is not taken for an argument', async () => {
    const program = createProgram()
      .exitOverride()
      .configureOutput({ writeErr: () => undefined, outputError: () => undefined })
    for (const command of program.commands) command.copyInheritedSettings(program)
    await expect(program.parseAsync(['status', '--wach'], { from: 'user' })).rejects.toThrow("unknown option '--wach'")
  })
})
