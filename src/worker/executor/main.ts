// The process of an executor: loads the user's module, then connects to the orchestrator that its parent names.
import { connect } from 'node:net'
import { openLogger } from '../../log/logger.ts'
import { type SentLine, sendingLogger } from '../../log/sending-logger.ts'
import { crossing } from '../errors.ts'
import { ignoreGroupSignals } from '../group-signals.ts'
import { endWithParent } from '../parent-watch.ts'
import { socketChannel } from '../channel.ts'
import type { ExecutorProcessOptions, ExecutorToParent, FromExecutor, ParentToExecutor, ToExecutor } from '../protocol.ts'
import { closeSources } from './close-sources.ts'
import { startExecutor } from './executor.ts'
import { loadWorkerModule } from './load-module.ts'
import { folderOfMissing, reportLoadedFiles } from './loaded-files.ts'
import { poster } from './poster.ts'
import { makeServices } from './services.ts'

const CONNECT_RETRY_MS = 20
const post = poster<ExecutorToParent>()

// Without the parent, no process could confirm this one's death. Therefore it exits with its parent, and its jobs resume elsewhere.
const tellListeners = ignoreGroupSignals()
const bodies = endWithParent()

// Node's ten frames often end inside a package, before the user's own code. A program that has set its own limit keeps it.
if (Error.stackTraceLimit === 10) Error.stackTraceLimit = 50

async function main(id: number, module: string): Promise<void> {
  /** The newest orchestrator's socket; it may arrive while this process loads. */
  let path: string | undefined
  let reconnect = (): void => undefined
  const shutdown = new Promise<void>((resolve) => {
    process.on('message', (message: ParentToExecutor) => {
      if (message?.pawl === 'shutdown') resolve()
      if (message?.pawl !== 'connect') return
      path = message.path
      reconnect()
    })
  })
  const logger = openLogger({ redact, ...(toParent && { to: sendingLogger(sendLine) }) })
  const { agents, services: declared } = await loadWorkerModule(module)
  const { services, dispose } = await makeServices(declared)
  const spans = traces && (await (await import('./active-spans.ts')).activeSpans(traces))
  const executor = startExecutor({ id, agents, services, logger, ownProcess: true, bodies, spans })
  reconnect = () => {
    if (path !== undefined) serveAt(path, () => path, executor.connect)
  }
  reconnect()
  reportLoaded()
  void post({ pawl: 'loaded' })
  await shutdown
  await closeSources(agents)
  await dispose().catch((err: unknown) => logger.error({ err }, 'the services could not be disposed of'))
  await lastLine
  await tellListeners()
}

/** Connects, and retries as long as that orchestrator is the newest. */
function serveAt(path: string, newest: () => string | undefined, onConnect: (channel: ReturnType<typeof channelOver>) => void): void {
  const socket = connect(path)
  const again = (): void => {
    if (newest() === path) setTimeout(() => serveAt(path, newest, onConnect), CONNECT_RETRY_MS)
  }
  socket.once('error', again)
  socket.once('connect', () => {
    socket.off('error', again)
    if (newest() === path) onConnect(channelOver(socket))
    else socket.destroy()
  })
}

/** Tells the parent about a missing file, which it then also watches. */
function reportMissing(error: unknown): void {
  reportLoaded()
  const folder = folderOfMissing(error instanceof Error ? error.cause : undefined)
  if (folder !== undefined) reportFile(folder)
}

const channelOver = (socket: ReturnType<typeof connect>) => socketChannel<ToExecutor, FromExecutor>(socket)

const [id = '0', module = '', options = ''] = process.argv.slice(2)
const {
  reportsFiles,
  log: { redact, toParent },
  traces,
} = JSON.parse(options) as ExecutorProcessOptions
/** The newest log line on its way to the parent. */
let lastLine = Promise.resolve()
const sendLine = (line: SentLine): void => {
  lastLine = post({ pawl: 'log', ...line })
}
const reportFile = (path: string): void => void post({ pawl: 'files', files: [path] })
const reportLoaded = reportsFiles ? reportLoadedFiles(reportFile) : () => undefined
try {
  await main(Number(id), module)
  process.exit(0)
} catch (error) {
  if (reportsFiles) reportMissing(error)
  await post({ pawl: 'start_failed', error: crossing(error) })
  process.exit(1)
}
