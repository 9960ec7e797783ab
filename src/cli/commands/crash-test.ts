// `pawl crash-test <module>`: kills workers at every boundary of a conversation and reports differences.
import { Command, InvalidArgumentError, Option } from 'commander'
import type { CrashTestOptions, TroubleKind } from '../../testing/crash/types.ts'
import { COLUMNS } from '../../testing/crash/wrapped.ts'
import { findModule } from '../running/module.ts'
import { listenForStop } from '../running/stop.ts'
import { terminalWidth } from '../table.ts'
import { defined } from '../../session/defined.ts'

interface CrashTestCommandOptions {
  only?: RegExp
  seed?: number
  rounds?: number
  kinds?: TroubleKind[]
  processes?: number
  json?: true
}

/** A shell's exit code for a command ended by Ctrl-C. */
const INTERRUPTED = 130

export function crashTestCommand(): Command {
  return new Command('crash-test')
    .description(
      'run a scripted conversation without kills, then with a SIGKILL at every boundary, then with random faults, and compare the results',
    )
    .argument('<module>', 'TypeScript or JavaScript file whose default export is a crash test: { module, script, world, … }')
    .option('--only <pattern>', 'only boundaries whose names match this regular expression, such as "tool refund.*during"', patternOf)
    .option('--seed <n>', 'seed of the random rounds (default: random; it is printed)', countOf)
    .option('--rounds <n>', 'number of random rounds (default: 7, one for each kind of fault)', countOf)
    .addOption(
      new Option(
        '--kinds <kinds>',
        'kinds of faults in random rounds, separated by commas (default: kill,pause,supervisor,pause_supervisor,both,postgres,temporal)',
      ).argParser((text) => text.split(',').map((kind) => kind.trim()) as TroubleKind[]),
    )
    .option('--processes <n>', 'executors (default: 2)', countOf)
    .option('--json', 'print the result as JSON instead of a table')
    .action(crashTestModule)
}

async function crashTestModule(given: string, options: CrashTestCommandOptions): Promise<void> {
  const path = await findModule(given, 'your crash test')
  // Exits at once: everything that the test started ends with this process.
  void listenForStop().stop.then(() => process.exit(INTERRUPTED))
  const [{ crashTest }, { loadCrashTest }, { tableOf }] = await Promise.all([
    import('../../testing/crash.ts'),
    import('../../testing/crash/load.ts'),
    import('../../testing/crash/table.ts'),
  ])
  const test = await loadCrashTest(path)
  const result = await crashTest({ ...asAsked(test, options), log: printProgress })
  const table = () => tableOf({ ...result, notes: result.baseline.notes }, terminalWidth(COLUMNS))
  process.stdout.write(`${options.json ? JSON.stringify(result) : table()}\n`)
  if (!result.ok) process.exitCode = 1
}

/** Options of the command line override those of the test. */
function asAsked(test: CrashTestOptions, { only, seed, rounds, kinds, processes }: CrashTestCommandOptions): CrashTestOptions {
  // The command line can add random rounds to a test without them.
  const random = test.random === false ? { rounds: 0 } : test.random
  return {
    ...test,
    ...(only && { only }),
    ...defined({ processes }),
    random: { ...random, ...defined({ seed, rounds }), ...(kinds && { kinds }) },
  }
}

/** Prints progress to standard error. The table goes to standard output, so it is replaced by a blank line here. */
function printProgress(line: string): void {
  process.stderr.write(line.startsWith('\n') ? '\n' : `${line}\n`)
}

function patternOf(text: string): RegExp {
  try {
    return new RegExp(text)
  } catch (error) {
    throw new InvalidArgumentError(`Use a regular expression (${error instanceof Error ? error.message : String(error)}).`)
  }
}

function countOf(text: string): number {
  const count = Number(text)
  if (!Number.isSafeInteger(count) || count < 0) throw new InvalidArgumentError('Use a whole number, 0 or higher.')
  return count
}
