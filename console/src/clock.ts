// The clock of the server: that of a visitor's machine may be wrong by hours.
let aheadMs = 0

/** Notes what time it is at the server, which says so to the second. */
export function noteTime(headers: Headers): void {
  const at = Date.parse(headers.get('date') ?? '')
  if (Number.isNaN(at)) return
  const difference = at - Date.now()
  // Less is the time that the answer took, and the fraction of the second.
  aheadMs = Math.abs(difference) < 2_000 ? 0 : difference
}

export const now = (): number => Date.now() + aheadMs

/** A time as the server or a model's provider states it; undefined if it is none. */
export function timeOf(at: string | number): Date | undefined {
  const time = new Date(at)
  return Number.isNaN(time.getTime()) ? undefined : time
}
