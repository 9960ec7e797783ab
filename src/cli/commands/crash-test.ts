// `pawl crash-test <module>`: kills the workers of a conversation at every boundary of it and says what differs.
import { Command, InvalidArgumentError, Option } from 'commander'
import type { CrashTestOptions, TroubleKind } from '../../testing/crash/types.ts'
import { findModule } from '../serving/module.ts'
import { listenForStop } from '../serving/stop.ts'
import { defined } from '../../session/defined.ts'

interface CrashTestCommandOptions {
  only?: RegExp
  seed?: number
  rounds?: number
  kinds?: TroubleKind[]
  processes?: number
  json?: true
}

/** As a shell says of a command that Ctrl-C has ended. */
const INTERRUPTED = 130

/** The command. */
export function crashTestCommand(): Command {
  return new Command('crash-test')
    .description('run a scripted conversation in peace, then with a SIGKILL at every boundary, then with random troubles, and compare')
    .argument('<module>', 'TypeScript or JavaScript file whose default export is a crash test: { module, script, world, … }')
    .option('--only <pattern>', 'only boundaries whose name matches, such as "tool refund.*during"', patternOf)
    .option('--seed <n>', 'seed of the random rounds (default: random, printed)', countOf)
    .option('--rounds <n>', 'random rounds; 0: none (default: 7, one for each kind)', countOf)
    .addOption(
      new Option(
        '--kinds <kinds>',
        'what may happen in them, with commas between (default: all of kill,pause,supervisor,pause_supervisor,both,postgres,temporal)',
      ).argParser((text) => text.split(',').map((kind) => kind.trim()) as TroubleKind[]),
    )
    .option('--processes <n>', 'worker processes (default: 2)', countOf)
    .option('--json', 'print the result as JSON instead of the table')
    .action(crashTestModule)
}

async function crashTestModule(given: string, options: CrashTestCommandOptions): Promise<void> {
  const path = await findModule(given, 'your crash test')
  // Nothing here is worth finishing; what was started ends with this process.
  void listenForStop().stop.then(() => process.exit(INTERRUPTED))
  const [{ crashTest }, { loadCrashTest }] = await Promise.all([import('../../testing/crash.ts'), import('../../testing/crash/load.ts')])
  const test = await loadCrashTest(path)
  const result = await crashTest({ ...asAsked(test, options), log: sayProgress })
  process.stdout.write(options.json ? `${JSON.stringify(result)}\n` : `${result.table}\n`)
  if (!result.ok) process.exitCode = 1
}

/** The command line has the last word. */
function asAsked(test: CrashTestOptions, { only, seed, rounds, kinds, processes }: CrashTestCommandOptions): CrashTestOptions {
  // A test without random rounds has them if the command line says how many.
  const random = test.random === false ? { rounds: 0 } : test.random
  return {
    ...test,
    ...(only && { only }),
    ...defined({ processes }),
    random: { ...random, ...defined({ seed, rounds }), ...(kinds && { kinds }) },
  }
}

/** The table is the result, and goes to standard output; here a blank line stands for it. */
function sayProgress(line: string): void {
  process.stderr.write(line.startsWith('\n') ? '\n' : `${line}\n`)
}

function patternOf(text: string): RegExp {
  try {
    return new RegExp(text)
  } catch (error) {
    throw new InvalidArgumentError(`Give a regular expression (${error instanceof Error ? error.message : String(error)}).`)
  }
}

function countOf(text: string): number {
  const count = Number(text)
  if (!Number.isSafeInteger(count) || count < 0) throw new InvalidArgumentError('Give an integer from 0.')
  return count
}
