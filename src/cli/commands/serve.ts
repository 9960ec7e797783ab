// `pawl serve`: the HTTP service of a deployment, for clients with API keys.
import { Command, InvalidArgumentError, Option } from 'commander'
import { milliseconds } from '../../session/duration.ts'
import { defined } from '../../session/defined.ts'
import { isAgentName } from '../../session/protocol/protocol.ts'
import { aboutDeployment, connectOptions, type DeploymentOptions } from '../connecting.ts'
import { jsonOption, LOG_HELP } from '../options.ts'
import { sayAs, warnOfUnknownAgents } from '../queries.ts'
import { listenForStop } from '../running/stop.ts'

interface ServeCommandOptions extends DeploymentOptions {
  host: string
  port: number
  agents?: string[]
  corsOrigin?: string[]
  rateLimit: number
  maxBody: number
  errorTexts: 'masked' | 'shown'
  maxWatches: number
  maxWatchesPerKey?: number
  reauthorizeEvery: number
  requestMemory: number
  drainDelay: number
  console: boolean
  json?: true
}

export function serveCommand(): Command {
  return aboutDeployment(
    new Command('serve')
      .description('serve the HTTP interface to clients with API keys (`pawl keys create`); see docs/web.md')
      .option('--host <address>', 'address to listen on', '127.0.0.1')
      .option('--port <n>', 'port to listen on; 0: any free port', numberOf(0, 65_535), 8787)
      .option('--agents <names>', 'agents that sessions may be started with, separated by commas (default: any)', agentsOf)
      .option(
        '--cors-origin <origin...>',
        "origins whose pages may send requests, such as https://app.example; '*': any (default: none)",
        originOf,
      )
      .option('--rate-limit <n>', 'requests per minute for each key; 0: no limit', numberOf(0, 1_000_000), 600)
      .option('--max-body <bytes>', 'the maximum size of a request body', numberOf(1_000, 100_000_000), 2_000_000)
      .option('--max-watches <n>', 'the maximum number of open event streams', numberOf(1, 1_000_000), 2_000)
      .option('--max-watches-per-key <n>', 'the same for each key (default: a quarter of --max-watches)', numberOf(1, 1_000_000))
      .option(
        '--request-memory <bytes>',
        'approximate memory for requests in progress; each key gets at most a quarter of it',
        numberOf(100_000_000, 100_000_000_000),
        512_000_000,
      )
      .addOption(
        new Option(
          '--error-texts <which>',
          'whether chat pages receive the messages of exceptions that are not ToolErrors, and the reasons of failed runs',
        )
          .choices(['masked', 'shown'])
          .default('masked'),
      )
      .addOption(
        new Option('--reauthorize-every <time>', "the maximum time between two checks of an open stream's key")
          .argParser(durationOf(1))
          .default(120_000, '2m'),
      )
      .option('--no-console', 'do not serve the console at /console/')
      .addOption(
        new Option('--drain-delay <time>', 'how long to keep accepting connections after SIGTERM, so that load balancers can react')
          .argParser(durationOf(0))
          .default(5_000, '5s'),
      ),
  )
    .addOption(jsonOption())
    .addHelpText('after', LOG_HELP)
    .action(serve)
}

async function serve(options: ServeCommandOptions): Promise<void> {
  const requests = listenForStop()
  // Loaded on demand, so that `pawl --help` is fast.
  const [{ Pawl }, { startServer }, { defaultLogger }] = await Promise.all([
    import('../../client/index.ts'),
    import('../../service/server.ts'),
    import('../../log/default-logger.ts'),
  ])
  const {
    host,
    port,
    agents,
    corsOrigin = [],
    rateLimit,
    maxBody,
    errorTexts,
    maxWatches,
    maxWatchesPerKey,
    reauthorizeEvery,
    requestMemory,
    drainDelay,
    console,
  } = options
  const logger = defaultLogger()
  const pawl = await Pawl.connect({ ...(await connectOptions(options)), logger })
  try {
    const server = await startServer({
      pawl,
      host,
      port,
      origins: corsOrigin,
      perMinute: rateLimit,
      maxBodyBytes: maxBody,
      errorTexts,
      maxWatches,
      reauthorizeEvery,
      requestMemory,
      drainDelayMs: drainDelay,
      console,
      logger,
      ...defined({ agents, maxWatchesPerCaller: maxWatchesPerKey }),
    })
    void warnOfUnknownAgents(options, agents ?? [])
    sayAs(options, { event: 'serving', url: server.url }, () => [`pawl serves ${server.url} (its interface: ${server.url}/openapi.json)`])
    await requests.stop
    sayAs(options, { event: 'draining' }, () => [
      'pawl is ending its streams and finishing its requests; send the signal again to stop at once',
    ])
    await server.stop(requests.hurry)
    sayAs(options, { event: 'stopped' }, () => ['pawl has stopped'])
  } finally {
    await pawl.close()
  }
}

function numberOf(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (text.trim() !== '' && Number.isInteger(number) && number >= min && number <= max) return number
    throw new InvalidArgumentError(`Use a whole number from ${min} to ${max}.`)
  }
}

function durationOf(minMs: number): (text: string) => number {
  return (text) => {
    const ms = text === '0' ? 0 : milliseconds(text)
    if (ms === undefined || ms < minMs) throw new InvalidArgumentError("Use a time such as '5s'.")
    return ms
  }
}

/** Adds one origin to those before it. Browsers send origins in this form only, so any other text would never match. */
function originOf(text: string, earlier: string[] = []): string[] {
  if (text === '*' || (URL.canParse(text) && new URL(text).origin === text)) return [...earlier, text]
  throw new InvalidArgumentError(
    "Use an origin as browsers send it: scheme, host and port without a path, such as https://app.example, or '*'.",
  )
}

function agentsOf(text: string): string[] {
  const names = text.split(',').map((name) => name.trim())
  if (names.every(isAgentName)) return names
  throw new InvalidArgumentError('Use names of agents, separated by commas.')
}
