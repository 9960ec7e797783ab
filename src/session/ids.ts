// The ids of calls, requests and messages, which are derived from their positions in the session.

/** pawl's own id of a tool call: the position of its request, plus its generation if it was made again. */
export function callIdOf(run: number, turn: number, index: number, generation = 1): string {
  const request = `t_${run}_${turn}_${index}`
  return generation === 1 ? request : `${request}#${generation}`
}

/** The id of the model's request, which is the id of the call's first generation. The model sees this id. */
export function requestIdOf(callId: string): string {
  return callId.split('#', 1)[0] ?? callId
}

/** How many times the request has been made, including this call: 1, or more for a call that was made again. */
export function generationOf(callId: string): number {
  return Number(callId.split('#', 2)[1] ?? 1)
}

const CALL_ID = /^t_(\d+)_(\d+)_\d+(?:#\d+)?$/

/** The turn in a call's id; undefined if the text is not such an id. */
export function turnOf(callId: string): { run: number; turn: number } | undefined {
  const [, run, turn] = CALL_ID.exec(callId) ?? []
  return run === undefined ? undefined : { run: Number(run), turn: Number(turn) }
}

/** The message id of the model's answer in a turn. */
export function answerIdOf({ run, turn }: { run: number; turn: number }): string {
  return `m_${run}_${turn}`
}

/** The message id of the results of a turn's tool calls. */
export function resultsIdOf({ run, turn }: { run: number; turn: number }): string {
  return `r_${run}_${turn}`
}
