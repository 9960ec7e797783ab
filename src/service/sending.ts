// Large responses: sent in pieces as the client reads them, so that their memory counts until they have been sent.

const PIECE_BYTES = 64_000

/** Settings and callbacks for a response that is being sent. */
export interface SendingOptions {
  /** Called once, when the response needs no more memory. */
  onEnd(): void
  /** A client that reads nothing for this long receives nothing more. */
  stalledAfterMs: number
  /** Aborts when the client has disconnected. */
  signal: AbortSignal
}

/** The response, which calls back when it has been sent. A small one, or an event stream, does so at once. */
export async function sentInPieces(response: Response, { onEnd, stalledAfterMs, signal }: SendingOptions): Promise<Response> {
  if (!response.body || response.headers.get('content-type') === 'text/event-stream') {
    onEnd()
    return response
  }
  const bytes = new Uint8Array(await response.arrayBuffer())
  const { status, headers } = response
  headers.set('content-length', String(bytes.length))
  if (bytes.length <= PIECE_BYTES) {
    onEnd()
    return new Response(bytes, { status, headers })
  }
  return new Response(piecesOf(bytes, { onEnd, stalledAfterMs, signal }), { status, headers })
}

function piecesOf(whole: Uint8Array<ArrayBuffer>, { onEnd, stalledAfterMs, signal }: SendingOptions): ReadableStream<Uint8Array> {
  let bytes: Uint8Array | undefined = whole
  let sent = 0
  let stalled: NodeJS.Timeout | undefined

  function end(): void {
    bytes = undefined
    clearTimeout(stalled)
    signal.removeEventListener('abort', end)
    onEnd()
  }

  return new ReadableStream(
    {
      start(controller) {
        signal.addEventListener('abort', end, { once: true })
        watch(controller)
        // The client may have disconnected while the response was made.
        if (signal.aborted) end()
      },
      pull(controller) {
        clearTimeout(stalled)
        if (!bytes || sent >= bytes.length) {
          end()
          return controller.close()
        }
        // A copy, because a piece that waits in a socket must not keep the whole response in memory.
        controller.enqueue(bytes.slice(sent, (sent += PIECE_BYTES)))
        watch(controller)
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  )

  function watch(controller: ReadableStreamDefaultController<Uint8Array>): void {
    stalled = setTimeout(() => {
      end()
      controller.error(new Error('The client does not read the response.'))
    }, stalledAfterMs)
    stalled.unref?.()
  }
}
