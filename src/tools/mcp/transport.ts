// The transports of MCP servers: a child process, or HTTP.
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client'
import type { Logger } from '../../agent/tool.ts'
import { defined } from '../../session/defined.ts'
import type { McpIdentity } from './auth.ts'
import { AnswerTooLarge, STREAM_ENDED } from './errors.ts'
import { guardedFetch } from './http.ts'
import { limitLines } from './line-limit.ts'
import type { McpRules } from './options.ts'
import type { McpSdk } from './sdk.ts'

/** How much of a server's error output is kept for the message if it does not start. */
const KEPT_OUTPUT = 500
/** What the SDK's buffer may hold besides the answer that is complete: those before it in the same chunk. */
const BUFFER_SLACK = 1_000_000

export interface OpenedTransport {
  transport: Transport
  /** The end of a child process's error output as an error; undefined if it wrote none. */
  ends(): Error | undefined
}

/** Makes the transport of a server, for the identity. */
export function openTransport(sdk: McpSdk, rules: McpRules, identity: McpIdentity, log: Logger): OpenedTransport {
  const { transport: given, maxBytes } = rules
  if (given.type === 'http') {
    const { url } = given
    const { provider } = identity
    const options = { fetch: guardedFetch(given, identity, maxBytes), ...(provider && { authProvider: provider as never }) }
    return { transport: failingWithItsStream(new sdk.StreamableHTTPClientTransport(new URL(url), options)), ends: () => undefined }
  }
  const { command, args = [], env, cwd } = given
  // It stays in the executor's process group, which the parent kills with the executor.
  const transport = new sdk.StdioClientTransport({
    command,
    args: [...args],
    stderr: 'pipe',
    maxBufferSize: maxBytes + BUFFER_SLACK,
    ...defined({ env: env && { ...env }, cwd }),
  })
  limitAnswers(transport, maxBytes)
  let output = ''
  transport.stderr?.on('data', (chunk: Buffer) => {
    output = `${output}${chunk.toString()}`.slice(-KEPT_OUTPUT)
    log.debug({ server: rules.name, text: chunk.toString().slice(0, 2_000) }, 'an MCP server wrote to its standard error')
  })
  return { transport, ends: () => (output.trim() === '' ? undefined : new Error(`its error output ends: ${output.trim()}`)) }
}

/**
 * Lets an answer that is too large fail its own request. The SDK offers no way between the process and its buffer, so this reaches into the
 * buffer; without it, the buffer's own limit ends the connection.
 */
function limitAnswers(transport: object, maxBytes: number): void {
  const { _readBuffer: buffer } = transport as { _readBuffer?: { append?: (chunk: Buffer) => void } }
  if (typeof buffer?.append !== 'function') return
  const append = buffer.append.bind(buffer)
  const limit = limitLines(maxBytes)
  buffer.append = (chunk) => {
    const lines = limit(chunk)
    if (!lines) throw new AnswerTooLarge(maxBytes)
    for (const line of lines) append(line)
  }
}

/** Kills the child process when this process exits by itself. Returns the function that forgets it. */
export function endWithProcess(pid: number): () => void {
  const kill = (): void => killProcess(pid)
  process.once('exit', kill)
  return () => void process.off('exit', kill)
}

/** Kills a child process, unless it has ended. */
export function killProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

/**
 * Lets a request fail when the stream of its answer ends without one, as when the server dies. The SDK would wait for the request's timeout.
 */
function failingWithItsStream(transport: InstanceType<McpSdk['StreamableHTTPClientTransport']>): Transport {
  const send = transport.send.bind(transport) as Transport['send']
  return Object.assign(transport as Transport, {
    send(message: JSONRPCMessage, options?: Parameters<Transport['send']>[1]): Promise<void> {
      if (!('method' in message && 'id' in message)) return send(message, options)
      const onRequestStreamEnd = (): void => {
        options?.onRequestStreamEnd?.()
        const error = { code: STREAM_ENDED, message: 'The stream ended without an answer.' }
        transport.onmessage?.({ jsonrpc: '2.0', id: message.id, error })
      }
      return send(message, { ...options, onRequestStreamEnd })
    },
  })
}
