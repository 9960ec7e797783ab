// The grace period for work that no worker serves, before the session reports it.
import { CancellationScope, condition, sleep } from '@temporalio/workflow'

/** A grace period that begins when it is first queried. */
export interface Grace {
  isOver(): boolean
  /** Waits until `done` settles (true) or the grace period is over (false). */
  until(isDone: () => boolean): Promise<boolean>
  /** Ends the grace period; the next query starts it again. */
  reset(): void
}

/** A grace period of `graceMs`. It is over when its timer has fired, whatever the clock says: see alarms.ts. */
export function startGrace(graceMs: number): Grace {
  // Outside the scope of the step that queries it first, because it must outlive that step.
  const parent = CancellationScope.current()
  let spell: { scope: CancellationScope; isOver: boolean } | undefined

  function begun(): { isOver: boolean } {
    if (spell) return spell
    const mine = { scope: new CancellationScope({ cancellable: true, parent }), isOver: false }
    spell = mine
    mine.scope
      .run(() => sleep(Math.max(1, graceMs)))
      .then(
        () => {
          mine.isOver = true
        },
        () => undefined,
      )
    return mine
  }

  return {
    isOver: () => begun().isOver,
    async until(isDone) {
      const mine = begun()
      await condition(() => isDone() || mine.isOver)
      return isDone()
    },
    reset() {
      spell?.scope.cancel()
      spell = undefined
    },
  }
}
