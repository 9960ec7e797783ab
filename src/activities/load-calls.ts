// The activity `loadCalls`: reads from the stored events those calls of a turn that did not fit into a bounded state.
import type { LogEntry, SessionEvent, Watermark } from '../session/events.ts'
import { jsonBytes } from '../session/json.ts'
import type { CallState } from '../session/state.ts'
import { callsOfTurn } from '../session/fold/turn-calls.ts'
import type { Store } from '../store/store.ts'
import type { LoadCallsInput, LoadCallsResult, NotYet } from '../calls/activities.ts'
import { currentSession } from './current-session.ts'
import { loading } from './loading.ts'

/** Approximate maximum bytes of JSON of a result; a larger call gets a result of its own. The server's limit is 2 MB. */
const RESULT_BYTES = 1_000_000

export function loadCallsActivity(store: Store) {
  return function loadCalls(input: LoadCallsInput): Promise<LoadCallsResult | NotYet> {
    const { sessionId } = currentSession()
    return loading(input, () => load(store, sessionId, input))
  }
}

async function load(store: Store, sessionId: string, { answerSeq, upTo, from }: LoadCallsInput): Promise<LoadCallsResult> {
  const entries = await entriesBetween(store, sessionId, answerSeq, upTo)
  if (!entries) return { gone: true }
  const page = pageOfCalls(callsOfTurn(entries.map(({ json }) => JSON.parse(json) as SessionEvent)), from)
  return page.calls.length === 0 ? { gone: true } : page
}

/** As many calls as one result can hold, starting with the one at `from`. */
export function pageOfCalls(all: readonly CallState[], from: number): { calls: CallState[]; more: boolean } {
  const wanted = all.slice(from)
  const calls: CallState[] = []
  let bytes = 0
  for (const call of wanted) {
    bytes += jsonBytes(call)
    if (calls.length > 0 && bytes > RESULT_BYTES) break
    calls.push(call)
  }
  return { calls, more: calls.length < wanted.length }
}

/** The entries from `first` up to the watermark; undefined if some are not stored. */
async function entriesBetween(store: Store, sessionId: string, first: number, upTo: Watermark): Promise<LogEntry[] | undefined> {
  const entries: LogEntry[] = []
  for (let after = first - 1; after < upTo.seq; ) {
    const page = (await store.entries(sessionId, { after })).filter(({ seq }) => seq <= upTo.seq)
    const last = page.at(-1)
    if (!last || page[0]?.seq !== after + 1) return undefined
    entries.push(...page)
    after = last.seq
  }
  return entries.at(-1)?.digest === upTo.digest ? entries : undefined
}
