// The endpoint that Prometheus scrapes.
import { createServer, type Server } from 'node:http'
import type { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import type { Logger } from '../../../agent/tool.ts'
import { loaded } from './packages.ts'

/** Another process may be using the port: another worker on this machine, or an orchestrator that is about to end. */
const RETRY_MS = 2_000

interface Address {
  host: string
  port: number
}

/**
 * Loads the exporter; the returned function serves the metrics at `/metrics`. If the port is in use, the server retries, because metrics
 * must not keep a worker from its work. The exporter's own server tries only once, so it is not used. @throws WorkerError
 * `no_telemetry_packages`.
 */
export async function prometheusAt(at: Address, logger: Logger): Promise<() => PrometheusExporter> {
  const name = '@opentelemetry/exporter-prometheus'
  const { PrometheusExporter } = await loaded(name, () => import('@opentelemetry/exporter-prometheus'))
  return () => {
    const exporter = new PrometheusExporter({ preventServerStart: true })
    const stop = listen(at, serverOf(exporter), logger)
    exporter.onShutdown = async () => stop()
    return exporter
  }
}

function serverOf(exporter: PrometheusExporter): Server {
  return createServer((request, response) => {
    const [path] = (request.url ?? '').split('?')
    if (path !== '/metrics') response.writeHead(404).end()
    else if (request.method !== 'GET') response.writeHead(405, { allow: 'GET' }).end()
    else exporter.getMetricsRequestHandler(request, response)
  })
}

function listen({ host, port }: Address, server: Server, logger: Logger): () => void {
  let timer: NodeJS.Timeout | undefined
  let isTaken = false
  let isOver = false
  const tryIt = (): void => void server.listen({ host, port })
  server.on('listening', () => logger.info({ host, port }, 'metrics are served at /metrics'))
  server.on('error', (err) => {
    if (!isTaken) logger.warn({ err, host, port }, 'metrics cannot be served: pawl keeps trying')
    isTaken = true
    if (!isOver) timer = setTimeout(tryIt, RETRY_MS).unref()
  })
  tryIt()
  // The server must not keep a worker process alive that has nothing else to do.
  server.unref()
  return () => {
    isOver = true
    clearTimeout(timer)
    server.close()
    server.closeAllConnections()
  }
}
